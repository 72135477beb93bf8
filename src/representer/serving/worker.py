"""One thread that runs a model; requests that wait together are predicted in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from representer.errors import RepresenterError

Result = TypeVar("Result")


class BusyError(RepresenterError):
    """Too many requests wait for the model."""


class _Job(NamedTuple):
    objects: Sequence[Any] | None  # to predict; None for a call of its own
    call: Callable[[], Any]
    future: asyncio.Future[Any]


class Worker:
    """Runs a model in one thread, so that each call has all threads of the library for itself.

    Nothing waits for a batch to fill: a batch holds the requests that came during the one before.

    Args:
        predict: From objects to one result each.
        max_batch: Objects of one call.
        max_waiting: Jobs that may wait.
        observe: Called with the number of objects of each call.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        max_batch: int,
        max_waiting: int,
        observe: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._predict, self._observe, self._max_batch = predict, observe, max_batch
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(max_waiting)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def predict(self, objects: Sequence[Any]) -> Sequence[Any]:
        """Return one result per object.

        Raises:
            BusyError: Too many requests wait.
        """
        return await self._submit(objects, partial(self._observed, objects))

    async def call(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function, which runs alone in the thread of the model.

        Raises:
            BusyError: Too many requests wait.
        """
        return await self._submit(None, function)

    async def _submit(self, objects: Sequence[Any] | None, call: Callable[[], Any]) -> Any:
        job = _Job(objects, call, asyncio.get_running_loop().create_future())
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            raise BusyError(f"{self._jobs.maxsize} requests wait for the model") from None
        return await job.future

    async def run(self) -> None:
        """Work until it is stopped."""
        try:
            after: _Job | None = None
            while True:
                batch = [after or await self._jobs.get()]
                after = self._join(batch)
                await self._work([job for job in batch if not job.future.done()])
        finally:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _join(self, batch: list[_Job]) -> _Job | None:
        """Add waiting predictions to a batch; return the first job that does not fit."""
        if batch[0].objects is None:
            return None
        count = len(batch[0].objects)
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job.objects is None or count + len(job.objects) > self._max_batch:
                return job
            batch.append(job)
            count += len(job.objects)
        return None

    async def _work(self, jobs: Sequence[_Job]) -> None:
        """Run jobs together or, if that fails, each alone: a wrong object fails one request."""
        if len(jobs) > 1:
            joined = [one for job in jobs for one in job.objects or ()]
            with suppress(Exception):
                results = iter(await self._in_thread(partial(self._observed, joined)))
                for job in jobs:
                    _finish(job, [*islice(results, len(job.objects or ()))])
                return
        for job in jobs:
            try:
                _finish(job, await self._in_thread(job.call))
            except Exception as error:  # raised where it is awaited
                if not job.future.done():
                    job.future.set_exception(error)

    def _observed(self, objects: Sequence[Any]) -> Sequence[Any]:
        self._observe(len(objects))
        return self._predict(objects)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _finish(job: _Job, result: Any) -> None:
    if not job.future.done():  # its client may have left
        job.future.set_result(result)
