"""The process of a model, which can be ended and started again."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from representer.errors import RepresenterError
from representer.serving import Limits
from representer.serving.answers import Answers, BusyError, Job, Reply, refusal
from representer.serving.guard import Metrics

# A server of forks has imported what a model needs, and runs no threads: a new process is ready
# soon, and a model on a GPU is loaded where it is used.
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_PRELOADED = ["representer.serving.served_model"]
_LOADING = 300.0  # seconds


class EndedError(RepresenterError):
    """The process of the model ended before it answered."""

    status = 503


class SlowError(EndedError):
    """The process of the model was ended, since one call took too long."""

    status = 504


class ModelProcess:
    """A process that answers jobs.

    Args:
        make: Loads the model; the process calls it, so it is a function of a module or a
            `functools.partial` of one.

    Attributes:
        about: Answers to requests that describe the model, see `Answers.describe`.
        streams: Number of open streams.
    """

    def __init__(self, make: Callable[[], Answers]) -> None:
        self._make = make
        self._running: tuple[Any, Any] | None = None  # the process, and the connection to it
        self.about: dict[str, Any] = {}
        self.streams = 0

    def start(self) -> None:
        """Start the process and wait until it has loaded the model, unless it runs.

        Raises:
            RepresenterError: The model cannot be loaded.
        """
        if self._running is not None:
            return
        context: Any = multiprocessing.get_context(_METHOD)
        if _METHOD == "forkserver":
            context.set_forkserver_preload(_PRELOADED)
        ours, theirs = context.Pipe()
        process = context.Process(target=_answer, args=(self._make, theirs), daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        loaded: Any = EndedError("the process of the model ended while it loaded the model")
        with suppress(EOFError, OSError):
            loaded = ours.recv() if ours.poll(_LOADING) else loaded
        if isinstance(loaded, RepresenterError):
            self.stop()
            raise loaded
        self.about.update(loaded)
        self.streams = 0

    def ask(self, jobs: Sequence[Job], seconds: float) -> list[Reply]:
        """Return the replies to jobs.

        Raises:
            SlowError: There were none after so many seconds; the process is ended.
        """
        try:
            self.start()
        except RepresenterError as problem:
            raise EndedError(f"the model cannot be loaded: {problem}") from None
        assert self._running is not None
        process, connection = self._running
        error: EndedError = SlowError(f"the model took more than {seconds:g} s and was ended")
        try:
            connection.send(jobs)
            if connection.poll(seconds):
                replies, self.streams = connection.recv()
                return replies
        except (EOFError, OSError):
            process.join()
            code = process.exitcode
            error = EndedError(f"the process of the model ended with exit code {code}")
        self.stop()
        raise error

    def stop(self) -> None:
        """End the process, whatever it does."""
        running, self._running = self._running, None
        if running is not None:
            process, connection = running
            process.kill()
            process.join()
            connection.close()


def _answer(make: Callable[[], Answers], connection: Connection) -> None:
    """Answer jobs until the server has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server finishes, then stops
    try:
        answers = make()
    except RepresenterError as error:
        return connection.send(error)
    gc.collect()
    gc.freeze()  # a pass over what stays takes a tenth of a second, for which requests would wait
    connection.send(answers.describe())
    with suppress(EOFError, OSError):
        while True:
            replies = answers(connection.recv())
            connection.send((replies, len(answers.streams)))
    return None


# The queue of a model; requests that wait together are predicted in one call.

_JOINED = 2**14  # bytes of the bodies of requests that are joined


class _Waiting(NamedTuple):
    job: Job
    future: asyncio.Future[Reply]


class Worker:
    """Sends requests to the process of a model, one call after the other.

    Nothing waits for a batch to fill: a batch holds the requests that came during the one before.
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
        batch = [item for item in batch if not item.future.done()]  # without clients that left
        if not batch:
            return
        seconds = min(self._limits.max_call_seconds, self._limits.max_seconds)
        try:
            jobs = [item.job for item in batch]
            replies = await asyncio.to_thread(self._process.ask, jobs, seconds)
        except EndedError as error:
            self._metrics.ended.inc()
            self._metrics.streams.set(0)
            if len(batch) == 1:
                _finish(batch[0], refusal(error))
            with suppress(RepresenterError):
                await asyncio.to_thread(self._process.start)
            for item in batch:  # one of several did it: each again, alone
                await self._work([item])
            return
        for item, reply in zip(batch, replies, strict=True):
            _finish(item, reply)
        if count := sum(reply.predicted for reply in replies):
            self._metrics.objects.observe(count)
        self._metrics.streams.set(self._process.streams)


def _finish(one: _Waiting, reply: Reply) -> None:
    if not one.future.done():  # its client may have left
        one.future.set_result(reply)
