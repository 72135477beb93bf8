"""Tests of the queue of a model."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from representer.serving.answers import Answers, Job, Reply
from representer.serving.guard import Metrics
from representer.serving.limits import Limits
from representer.serving.model_process import SlowError, Worker
from representer.serving.served_model import BusyError
from served_toys import Toy


class Process:
    """Answers in the thread of the worker, once it is released."""

    def __init__(self, limits: Limits) -> None:
        self._answers = Answers(Toy, limits)  # type: ignore[arg-type]
        self.released, self.calls, self.starts = threading.Event(), list[list[str]](), 0
        self.streams = 0

    def ask(self, jobs: Sequence[Job], seconds: float) -> list[Reply]:
        assert self.released.wait(20)
        self.calls.append([json.dumps(json.loads(job.body or "{}").get("inputs")) for job in jobs])
        if any(b"hang" in job.body for job in jobs):
            raise SlowError("too slow")
        return self._answers(jobs)

    def start(self) -> None:
        self.starts += 1

    def stop(self) -> None:
        self.released.set()


def answers(
    requests: Sequence[Any], leave: Sequence[int] = (), **limits: Any
) -> tuple[Process, list[Any]]:
    """Return a process and the answers to requests that wait together; some clients leave."""
    process = Process(Limits(**limits))

    async def main() -> list[Any]:
        worker: Any = Worker(process, Limits(**limits), Metrics())  # type: ignore[arg-type]
        running = asyncio.create_task(worker.run())
        first = asyncio.create_task(asked(worker.ask("open")))
        await asyncio.sleep(0)  # it runs; the next ones wait for it together
        await asyncio.sleep(0)
        tasks = [
            asyncio.create_task(asked(worker.ask(kind, json.dumps({"inputs": inputs}).encode())))
            for kind, inputs in requests
        ]
        await asyncio.sleep(0)
        for k in leave:
            tasks[k].cancel()
        process.released.set()
        found = await asyncio.gather(first, *tasks, return_exceptions=True)
        running.cancel()
        return found[1:]

    return process, asyncio.run(main())


async def asked(answer: Coroutine[Any, Any, Reply]) -> Any:
    reply = await answer
    (content,) = json.loads(reply.body).values()
    return content if reply.status == 200 else (reply.status, content)


def test_requests_that_wait_together_are_one_call_and_a_wrong_one_fails_alone() -> None:
    requests = [("predict", [1, 2]), ("predict", ["wrong"]), ("predict", [3])]
    process, found = answers(requests)
    assert found == [[2, 4], (422, "inputs[0] is wrong."), [6]]
    assert len(process.calls) == 2  # the first one opened a stream


def test_an_explanation_is_a_call_of_its_own() -> None:
    requests = [("predict", [1]), ("explain", [1, 2]), ("predict", [3])]
    process, found = answers(requests)
    assert found == [[2], [{"row": 1}, {"row": 2}], [6]]
    assert process.calls[1:] == [["[1]"], ["[1, 2]"], ["[3]"]]


def test_a_request_that_ended_the_process_is_the_only_one_that_fails() -> None:
    requests = [("predict", [1]), ("predict", ["hang"]), ("predict", [3])]
    process, found = answers(requests)
    assert found[::2] == [[2], [6]]
    assert found[1] == (504, "too slow")
    assert process.starts == 2  # after the call of all, and after that of the one


def test_a_client_that_left_costs_nothing() -> None:
    process, found = answers([("predict", [1]), ("predict", [2])], leave=[0])
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1] == [4]
    assert process.calls[1:] == [["[2]"]]


def test_more_requests_than_may_wait_are_refused() -> None:
    _, found = answers([("predict", [k]) for k in range(4)], max_waiting=3)
    assert found[:3] == [[0], [2], [4]]
    assert isinstance(found[3], BusyError)


def test_a_large_body_is_a_call_of_its_own() -> None:
    requests = [("predict", [1]), ("predict", [1.0] * 4000), ("predict", [2])]
    process, found = answers(requests, max_objects=4000)
    assert [len(one) for one in found] == [1, 4000, 1]
    assert [len(call) for call in process.calls[1:]] == [1, 1, 1]
