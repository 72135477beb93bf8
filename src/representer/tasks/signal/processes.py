"""Run folds in worker processes with one thread each, on a shared copy of the signals."""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for_end
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import torch

from representer.errors import Interrupted, TrainingError
from representer.tasks.signal.data import SignalData
from representer.tasks.signal.fold import FoldJob, FoldResult, run_fold
from representer.training.generators import keep_freed_memory
from representer.training.interruption import Interruption

# Run folds in worker processes with one thread each, on a shared copy of the signals.

_POLL = 0.2  # seconds between checks for a signal


@dataclass(frozen=True)
class Shared:
    """An array in an open file, which worker processes map into memory when they start."""

    file: IO[bytes]
    array: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a worker, which inherits the open file, restores the array."""
        return _mapped, (DupFd(self.file.fileno()), self.array.dtype.str, self.array.shape)


def run_in_processes(
    data: SignalData,
    jobs: Sequence[FoldJob],
    processes: int,
    take: Callable[[FoldJob, FoldResult], None],
) -> None:
    """Run folds in worker processes.

    Args:
        data: Recordings of all folds.
        jobs: The folds.
        processes: Number of processes.
        take: Called with each result when it arrives.

    Raises:
        Interrupted: A signal arrived; everything is saved and can continue.
        RepresenterError: The error of a fold.
        TrainingError: A process was killed.
    """
    interruption, place = Interruption(), jobs[0].folder.parent
    place.mkdir(parents=True, exist_ok=True)
    # the file has no name, so that nothing is left of it when all processes have been killed
    with TemporaryFile(dir=place) as copy, interruption:
        data.recordings.signals.tofile(copy)
        signals: Any = Shared(copy, data.recordings.signals)
        shared = replace(data, recordings=replace(data.recordings, signals=signals))
        others = set(active_children())
        context = get_context("spawn")
        pool = ProcessPoolExecutor(min(processes, len(jobs)), context, _begin, (shared,))
        try:
            waiting = {pool.submit(_run, job): job for job in jobs}
            while waiting:
                for future in wait(waiting, _POLL, FIRST_COMPLETED).done:
                    take(waiting.pop(future), future.result())
                if interruption:
                    kept = "finished folds are kept, and the others are saved"
                    message = f"{interruption.name} received; {kept}. Continue with --resume."
                    raise Interrupted(message, interruption.exit_code)
        except BrokenProcessPool:
            raise TrainingError(
                "a process that trained a fold was killed, possibly for lack of memory. Continue "
                "with --resume and fewer --jobs."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            end(set(active_children()) - others)


def end(workers: Collection[BaseProcess]) -> None:
    """End processes by SIGTERM, on which a worker saves its checkpoint, and wait for them.

    A fold that finishes while it records the signal takes no notice of it, and its worker waits for
    the next fold; so the signal is repeated.
    """
    while alive := [worker for worker in workers if worker.is_alive()]:
        for worker in alive:
            worker.terminate()
        wait_for_end([worker.sentinel for worker in alive], _POLL)


_data: list[SignalData] = []  # in a worker: of all its folds
_stopped: list[Interrupted] = []  # in a worker: the interruption


def _mapped(file: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    with os.fdopen(file.detach(), "rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype).reshape(shape)


def _begin(data: SignalData) -> None:
    """Prepare a worker: one thread, and an exit together with its parent.

    Ctrl-C in a terminal reaches all processes; only the parent handles it and ends the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _data.append(data)


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)


def _run(job: FoldJob) -> FoldResult:
    if _stopped:  # a job that the pool had already dispatched
        raise _stopped[0]
    try:
        return run_fold(job, _data[-1])
    except Interrupted as error:
        _stopped.append(error)
        raise
