"""Run folds in worker processes with one thread each, on a shared copy of the signals."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import torch

from representer.data.signals import Recordings
from representer.errors import Interrupted, RepresenterError, TrainingError
from representer.tasks.signal.signal_fold import FoldData, FoldJob, FoldResult, finished, run_fold
from representer.training.freed_memory import keep_freed_memory
from representer.training.interruption import Interruption

_POLL = 0.2  # seconds between checks for a signal
_COPY = ".signals-"  # prefix of the name of the copy


@dataclass(frozen=True)
class Failure:
    """Error that ended a fold, in a picklable form."""

    message: str
    exit_code: int
    is_interruption: bool

    def error(self) -> RepresenterError:
        """Return the error to raise."""
        if self.is_interruption:
            return Interrupted(self.message, self.exit_code)
        error = RepresenterError(self.message)
        error.exit_code = self.exit_code
        return error


def run_folds(
    data: FoldData,
    jobs: Sequence[FoldJob],
    *,
    processes: int,
    report: Callable[[str], None],
) -> list[FoldResult]:
    """Run folds in parallel, each once, and return their results in the order of the jobs.

    Args:
        data: Recordings of all folds.
        jobs: The folds, of one or several configurations.
        processes: Number of worker processes; 1 runs the folds in this process.
        report: Called with a line for every finished fold.

    Raises:
        ArgumentError: If a fold in a folder has other settings.
        Interrupted: If a signal arrived; everything is saved and can continue.
        TrainingError: If a training diverged, or a process was killed.
    """
    results = {k: finished(job, data) for k, job in enumerate(jobs)}
    waiting = [k for k, result in results.items() if result is None]
    if len(waiting) < len(jobs):
        report(f"{len(jobs) - len(waiting)} of {len(jobs)} folds are finished already")

    def take(k: int, result: FoldResult) -> None:
        results[k] = result
        done = sum(result is not None for result in results.values())
        report(f"{done}/{len(jobs)} {_line(jobs[k], result, data.recordings)}")

    if waiting:
        if min(processes, len(waiting)) == 1:
            for k in waiting:
                take(k, run_fold(jobs[k], data))
        else:
            _in_processes(data, {k: jobs[k] for k in waiting}, processes, take)
    return [result for result in results.values() if result is not None]


def _in_processes(
    data: FoldData,
    jobs: dict[int, FoldJob],
    processes: int,
    take: Callable[[int, FoldResult], None],
) -> None:
    """Run the jobs in worker processes, and pass on each result when it arrives."""
    interruption = Interruption()
    beside = next(iter(jobs.values())).folder.parent
    with _copied(data.recordings.signals, beside) as shared, interruption:
        others = set(active_children())
        none = replace(data.recordings, signals=data.recordings.signals[:, :0, :0])
        without = data._replace(recordings=none)
        pool = ProcessPoolExecutor(
            min(processes, len(jobs)), get_context("spawn"), _begin, (shared, without)
        )
        try:
            futures = {pool.submit(_run, job): k for k, job in jobs.items()}
            _collect(futures, take, interruption)
        except BrokenProcessPool:
            raise TrainingError(
                "a process that trained a fold was killed, possibly for lack of memory. Continue "
                "with --resume and fewer --jobs."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers = set(active_children()) - others
            for worker in workers:
                worker.terminate()  # on SIGTERM a worker saves its checkpoint
            for worker in workers:
                worker.join()


@contextmanager
def _copied(signals: np.ndarray, folder: Path) -> Iterator[Path]:
    """Keep a copy of the signals in a folder, and remove copies of killed processes."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_COPY}*"):
        with suppress(OSError), left.open("rb") as file:  # locked, or removed by another process
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    while True:
        with NamedTemporaryFile(dir=folder, prefix=_COPY, suffix=".npy", delete=False) as file:
            path = Path(file.name)
            fcntl.flock(
                file, fcntl.LOCK_EX
            )  # released when this process ends, even if it is killed
            if not path.exists():  # another process removed it as a stale copy
                continue
            try:
                np.save(file, signals)
                file.flush()
                yield path
            finally:
                path.unlink(missing_ok=True)
        return


def _collect(
    futures: dict[Future[FoldResult | Failure], int],
    take: Callable[[int, FoldResult], None],
    interruption: Interruption,
) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED)
        for future in done:
            outcome = future.result()
            if isinstance(outcome, Failure):
                raise outcome.error()
            take(futures[future], outcome)
        if interruption:
            raise Interrupted(
                f"{interruption.name} received; finished folds are kept, and the others are saved. "
                "Continue with --resume.",
                interruption.exit_code,
            )


_shared: list[FoldData] = []  # in a worker: data of all its folds
_stopped: list[Failure] = []  # in a worker: the interruption


def _begin(copy: Path, without: FoldData) -> None:
    """Prepare a worker: one thread, memory-mapped signals, and an exit together with its parent.

    Ctrl-C in a terminal reaches all processes; only the parent handles it and ends the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    signals = np.load(copy, mmap_mode="r", allow_pickle=False)
    recordings = replace(without.recordings, signals=signals)
    _shared.append(without._replace(recordings=recordings))


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)


def _run(job: FoldJob) -> FoldResult | Failure:
    if _stopped:  # a job that the pool had already dispatched
        return _stopped[0]
    try:
        return run_fold(job, _shared[-1])
    except RepresenterError as error:  # some subclasses cannot be unpickled
        failure = Failure(str(error), error.exit_code, isinstance(error, Interrupted))
    if failure.is_interruption:
        _stopped.append(failure)
    return failure


def _line(job: FoldJob, result: FoldResult, recordings: Recordings) -> str:
    epoch = f"epoch {result.best_epoch} of {result.epochs}, " if result.epochs else ""
    return (
        f"{job.fold.name}: accuracy {result.accuracy(recordings):.3f} on {len(result.rows)} "
        f"windows, {epoch}"
        f"{result.seconds:.1f} s"
    )
