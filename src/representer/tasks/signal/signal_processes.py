"""Folds in processes of their own: each one thread, all reading one copy of the signals."""

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
from representer.tasks.training.freed_memory import keep_freed_memory
from representer.tasks.training.interruption import Interruption

_POLL = 0.2  # seconds until a signal is heard
_COPY = ".signals-"  # how the name of the copy begins


@dataclass(frozen=True)
class Failure:
    """What ended a fold, in a form that passes between processes."""

    message: str
    exit_code: int
    is_interruption: bool

    def error(self) -> RepresenterError:
        """Return it as an error to raise."""
        if self.is_interruption:
            return Interrupted(self.message, self.exit_code)
        error = RepresenterError(self.message)
        error.exit_code = self.exit_code
        return error


def run_folds(
    of: Recordings,
    jobs: Sequence[FoldJob],
    *,
    digest: str,
    processes: int,
    report: Callable[[str], None],
) -> list[FoldResult]:
    """Run folds, several at once, each once; return their results in the order of the jobs.

    Args:
        of: The recordings of all of them, prepared but not standardized.
        jobs: The folds; they may be of several configurations.
        digest: Of the recordings.
        processes: How many at once; 1 runs them in this process.
        report: Is told of every fold that has ended.

    Raises:
        ArgumentError: If a folder's fold was run with other settings.
        Interrupted: If a signal came; what had begun is saved and can go on.
        TrainingError: If a training diverged, or a process was killed.
    """
    found = {k: finished(job, digest) for k, job in enumerate(jobs)}
    waiting = [k for k, result in found.items() if result is None]
    if len(waiting) < len(jobs):
        report(f"{len(jobs) - len(waiting)} of {len(jobs)} folds are there already")

    def take(k: int, result: FoldResult) -> None:
        found[k] = result
        done = sum(result is not None for result in found.values())
        report(f"{done}/{len(jobs)} {_line(jobs[k], result, of)}")

    if waiting:
        data = FoldData.of_jobs(of, [jobs[k] for k in waiting], digest)
        if min(processes, len(waiting)) == 1:
            for k in waiting:
                take(k, run_fold(jobs[k], data))
        else:
            _in_processes(data, {k: jobs[k] for k in waiting}, processes, take)
    return [result for result in found.values() if result is not None]


def _in_processes(
    data: FoldData,
    jobs: dict[int, FoldJob],
    processes: int,
    take: Callable[[int, FoldResult], None],
) -> None:
    """Run the jobs in processes, and pass on what each has found as soon as it has."""
    interruption = Interruption()
    beside = next(iter(jobs.values())).folder.parent
    with _copied(data.recordings.signals, beside) as shared, interruption:
        others = set(active_children())
        none = replace(data.recordings, signals=data.recordings.signals[:, :0, :0])
        without = replace(data, recordings=none)
        pool = ProcessPoolExecutor(
            min(processes, len(jobs)), get_context("spawn"), _begin, (shared, without)
        )
        try:
            futures = {pool.submit(_run, job): k for k, job in jobs.items()}
            _collect(futures, take, interruption)
        except BrokenProcessPool:
            raise TrainingError(
                "a process that trained a fold was killed, perhaps for its memory. Go on with "
                "--resume, and with fewer --jobs."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers = set(active_children()) - others
            for worker in workers:
                worker.terminate()  # it saves what it has
            for worker in workers:
                worker.join()


@contextmanager
def _copied(signals: np.ndarray, folder: Path) -> Iterator[Path]:
    """Keep a copy of the signals in a folder, and remove those that killed processes have left."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_COPY}*"):
        with suppress(OSError), left.open("rb") as file:  # locked, or removed by another process
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    while True:
        with NamedTemporaryFile(dir=folder, prefix=_COPY, suffix=".npy", delete=False) as file:
            path = Path(file.name)
            fcntl.flock(file, fcntl.LOCK_EX)  # until this process ends, in whatever way
            if not path.exists():  # another process took it for one that was left
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
                f"{interruption.name} came; finished folds are kept, the others go on where they "
                "are. Continue with --resume.",
                interruption.exit_code,
            )


_shared: list[FoldData] = []  # of a worker: what all its folds need
_stopped: list[Failure] = []  # of a worker: what it was told to stop by


def _begin(copy: Path, without: FoldData) -> None:
    """Prepare a worker: one thread, the signals from the disk's cache, and an end with its parent.

    The terminal's Ctrl-C reaches all processes; the parent alone listens, and ends the others.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    signals = np.load(copy, mmap_mode="r", allow_pickle=False)
    _shared.append(replace(without, recordings=replace(without.recordings, signals=signals)))


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)


def _run(job: FoldJob) -> FoldResult | Failure:
    if _stopped:  # a job that the pool had handed out already
        return _stopped[0]
    try:
        return run_fold(job, _shared[-1])
    except RepresenterError as error:  # its constructor may need more than its message
        failure = Failure(str(error), error.exit_code, isinstance(error, Interrupted))
    if failure.is_interruption:
        _stopped.append(failure)
    return failure


def _line(job: FoldJob, result: FoldResult, of: Recordings) -> str:
    right = result.probabilities.argmax(axis=1) == of.labels[result.rows]
    return (
        f"{job.fold.name}: accuracy {right.mean():.3f} on {len(right)} windows, "
        f"epoch {result.best_epoch} of {result.epochs}, {result.seconds:.1f} s"
    )
