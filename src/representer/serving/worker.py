"""The queue of a model; requests that wait together are predicted in one call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from representer.errors import RepresenterError
from representer.serving.answers import Job, Reply, refusal
from representer.serving.limits import Limits
from representer.serving.metrics import Metrics
from representer.serving.model_process import EndedError, ModelProcess
from representer.serving.streams import BusyError

_JOINED = 2**14  # bytes of the bodies of requests that are joined


class _Waiting(NamedTuple):
    job: Job
    future: asyncio.Future[Reply]


class Worker:
    """Sends requests to the process of a model, one call after the other.

    Nothing waits for a batch to fill: a batch holds the requests that came during the one before.

    Args:
        process: What answers.
        limits: Of requests.
        metrics: Count objects of calls, ends of the process and open streams.
    """

    def __init__(self, process: ModelProcess, limits: Limits, metrics: Metrics) -> None:
        self._process, self._limits, self._metrics = process, limits, metrics
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()

    async def ask(self, kind: str, body: bytes = b"", name: str = "") -> Reply:
        """Return the reply to a request.

        Raises:
            BusyError: Too many requests wait.
        """
        if len(self._waiting) >= self._limits.max_waiting:
            raise BusyError(f"{self._limits.max_waiting} requests wait for the model")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(Job(kind, body, name), future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Work until it is stopped."""
        try:
            while True:
                await self._arrived.wait()
                batch = self._batch()
                if not self._waiting:
                    self._arrived.clear()
                await self._work(batch)
        finally:
            self._process.stop()

    def _batch(self) -> list[_Waiting]:
        """Return the next request, and those after it that can be joined with it."""
        batch = [self._waiting.popleft()]
        size = len(batch[0].job.body)
        while self._waiting and batch[0].job.kind == self._waiting[0].job.kind == "predict":
            size += len(self._waiting[0].job.body)
            if size > _JOINED:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _work(self, batch: Sequence[_Waiting]) -> None:
        batch = [one for one in batch if not one.future.done()]  # without clients that left
        if not batch:
            return
        seconds = min(self._limits.max_call_seconds, self._limits.max_seconds)
        try:
            jobs = [one.job for one in batch]
            replies = await asyncio.to_thread(self._process.ask, jobs, seconds)
        except EndedError as error:
            self._metrics.ended.inc()
            self._metrics.streams.set(0)
            if len(batch) == 1:
                _finish(batch[0], refusal(error))
            with suppress(RepresenterError):
                await asyncio.to_thread(self._process.start)
            for one in batch:  # one of several did it: each again, alone
                await self._work([one])
            return
        for one, reply in zip(batch, replies, strict=True):
            _finish(one, reply)
        if count := sum(reply.predicted for reply in replies):
            self._metrics.objects.observe(count)
        self._metrics.streams.set(self._process.streams)


def _finish(one: _Waiting, reply: Reply) -> None:
    if not one.future.done():  # its client may have left
        one.future.set_result(reply)
