"""Tests of the thread that runs a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from representer.serving.worker import Worker


def doubled(objects: Sequence[Any]) -> list[Any]:
    """Return twice each number; a text fails as a whole batch."""
    return [2 * one + 0 for one in objects]


def test_one_wrong_object_fails_its_own_request_alone() -> None:
    async def main() -> list[Any]:
        started = threading.Event()
        sizes: list[int] = []
        worker = Worker(doubled, max_batch=10, max_waiting=10, observe=sizes.append)
        running = asyncio.create_task(worker.run())
        first = asyncio.create_task(worker.call(lambda: started.wait(20)))
        await asyncio.sleep(0)  # it runs; the next ones wait for it together
        others = [asyncio.create_task(worker.predict(own)) for own in ([1, 2], ["a"], [3])]
        await asyncio.sleep(0)
        started.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        running.cancel()
        return [*results, sizes]

    _, good, bad, other, sizes = asyncio.run(main())
    assert (good, other) == ([2, 4], [6])
    assert isinstance(bad, TypeError)
    assert sizes == [4, 2, 1, 1]  # together, then alone


def test_a_batch_is_no_larger_than_allowed() -> None:
    async def main() -> tuple[list[Any], list[int]]:
        release, sizes = threading.Event(), []
        worker = Worker(doubled, max_batch=4, max_waiting=10, observe=sizes.append)
        running = asyncio.create_task(worker.run())
        waits = asyncio.create_task(worker.call(lambda: release.wait(20)))
        await asyncio.sleep(0)
        tasks = [asyncio.create_task(worker.predict([k, k])) for k in range(5)]
        await asyncio.sleep(0)
        release.set()
        found = await asyncio.gather(*tasks)
        await waits
        running.cancel()
        return found, sizes

    found, sizes = asyncio.run(main())
    assert found == [[2 * k, 2 * k] for k in range(5)]
    assert sizes == [4, 4, 2]


def test_a_client_that_left_costs_nothing() -> None:
    async def main() -> list[int]:
        release, sizes = threading.Event(), []
        worker = Worker(doubled, max_batch=4, max_waiting=10, observe=sizes.append)
        running = asyncio.create_task(worker.run())
        waits = asyncio.create_task(worker.call(lambda: release.wait(20)))
        await asyncio.sleep(0)
        left, stays = (asyncio.create_task(worker.predict([k])) for k in range(2))
        await asyncio.sleep(0)
        left.cancel()
        release.set()
        assert await stays == [2]
        await waits
        running.cancel()
        return sizes

    assert asyncio.run(main()) == [1]
    with pytest.raises(TypeError):
        doubled(["a"])
