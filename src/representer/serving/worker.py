"""The queue of a model; requests that wait together are predicted in one call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from representer.errors import RepresenterError
from representer.serving.answers import EndedError, Job, Reply
from representer.serving.limits import Limits
from representer.serving.model_process import ModelProcess
from representer.serving.streams import BusyError

_JOINED = 2**14  # bytes of the bodies of requests that are joined


@dataclass
class _Waiting:
    job: Job
    future: asyncio.Future[tuple[int, bytes]]
    is_alone: bool  # in its calls of the model
    entries: list[bytes] = field(default_factory=list)


class Worker:
    """Sends requests to the process of a model, one call after the other.

    Nothing waits for a batch to fill: a batch holds the requests that came during the one before.
    A request that takes several calls goes to the end of the queue after each of them.

    Args:
        process: What answers.
        limits: Of requests.
        observe: Called with the number of objects of each call that predicts.
        ended: Called when the process has ended.
    """

    def __init__(
        self,
        process: ModelProcess,
        limits: Limits,
        *,
        observe: Callable[[int], object] = lambda size: None,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self._process, self._limits, self._observe, self._ended = process, limits, observe, ended
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def ask(self, kind: str, body: bytes = b"", name: str = "") -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request.

        Raises:
            BusyError: Too many requests wait.
            EndedError: The process of the model ended in this request.
        """
        if len(self._waiting) >= self._limits.max_waiting:
            raise BusyError(f"{self._limits.max_waiting} requests wait for the model")
        future = asyncio.get_running_loop().create_future()
        is_alone = kind != "predict" or len(body) > _JOINED
        self._put(_Waiting(Job(kind, body, name), future, is_alone))
        return await future

    async def run(self) -> None:
        """Work until it is stopped."""
        try:
            while True:
                await self._arrived.wait()
                batch = self._batch()
                if not self._waiting:
                    self._arrived.clear()
                if batch:
                    await self._work(batch)
        finally:
            self._process.stop()
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _put(self, one: _Waiting) -> None:
        self._waiting.append(one)
        self._arrived.set()

    def _batch(self) -> list[_Waiting]:
        """Return the next requests that can be joined, without those of clients that left."""
        batch, size = list[_Waiting](), 0
        while self._waiting:
            one = self._waiting[0]
            size += len(one.job.body)
            if batch and (batch[0].is_alone or one.is_alone or size > _JOINED):
                break
            self._waiting.popleft()
            batch += [] if one.future.done() else [one]
        return batch

    async def _work(self, batch: Sequence[_Waiting]) -> None:
        limits, jobs = self._limits, [one.job for one in batch]
        seconds = min(limits.max_call_seconds, limits.max_seconds)
        try:
            replies = await self._in_thread(self._process.ask, jobs, seconds)
        except EndedError as error:
            self._ended()
            for one in batch:
                if len(batch) > 1:  # one of them did it: each again, alone
                    one.is_alone = True
                    self._put(one)
                elif not one.future.done():
                    one.future.set_exception(error)
            with suppress(RepresenterError):
                await self._in_thread(self._process.start)
            return
        for one, reply in zip(batch, replies, strict=True):
            self._take(one, reply)
        if count := sum(reply.predicted for reply in replies):
            self._observe(count)

    def _take(self, one: _Waiting, reply: Reply) -> None:
        if reply.status != 200:
            one.entries.clear()
        one.entries += [reply.body] if reply.stop != 0 else []
        if reply.stop is not None:
            one.job, one.is_alone = one.job._replace(start=reply.stop), True
            self._put(one)
        elif not one.future.done():  # its client may have left
            one.future.set_result((reply.status, b",".join(one.entries)))

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
