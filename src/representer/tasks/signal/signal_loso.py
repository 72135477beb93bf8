"""Leave-one-subject-out cross-validation: the folds of a run, in one process or several."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.estimators import SignalClassifier
from representer.printable import say
from representer.tasks.signal.signal_data import SignalData, digest_of, standardized
from representer.tasks.signal.signal_fold import FoldJob, FoldResult, finished, run_fold
from representer.tasks.signal.signal_folds import accuracy_by_subject, joined, plan
from representer.tasks.signal.signal_processes import run_in_processes

FOLDS = "folds"
MOST_PROCESSES = 8  # by default; each needs about half a gigabyte


@dataclass(frozen=True)
class LosoResult:
    """Predictions of all folds.

    Attributes:
        folds: Results of the folds, in order.
        rows: Indices of the test windows, in ascending order.
        probabilities: Class probabilities ``(rows, classes)``.
    """

    folds: tuple[FoldResult, ...]
    rows: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of_folds(cls, folds: Sequence[FoldResult]) -> LosoResult:
        """Join the predictions of the folds."""
        return cls(tuple(folds), *joined([(fold.rows, fold.probabilities) for fold in folds]))

    @property
    def seconds(self) -> float:
        """Training time of all folds."""
        return sum(fold.seconds for fold in self.folds)

    def accuracy_by_subject(self, recordings: Recordings) -> dict[str, float]:
        """Return the accuracy on each test subject."""
        return accuracy_by_subject(recordings, self.rows, self.probabilities.argmax(axis=1))


def jobs_of(recordings: Recordings, config: Any, folder: str | Path) -> list[FoldJob]:
    """Return the jobs of a run, one folder per fold."""
    return [
        FoldJob(replace(config, resume=False), fold, Path(folder, FOLDS, fold.folder_name(number)))
        for number, fold in enumerate(plan(recordings, config))
    ]


def estimators_of(folder: Path, folds: Sequence[FoldResult]) -> list[SignalClassifier]:
    """Return the trained estimators of the folds of a run."""
    names = (one.fold.folder_name(number) for number, one in enumerate(folds))
    return [SignalClassifier.load(folder / FOLDS / name) for name in names]


def run_loso(
    recordings: Recordings,
    config: Any,
    folder: str | Path,
    *,
    processes: int | None = None,
    report: Callable[[str], None] = say,
) -> LosoResult:
    """Leave every subject, or group of subjects, out in turn.

    Each fold is trained from scratch in ``folder/folds/NAME``. Finished folds are not repeated, and
    interrupted folds continue.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        config: A `SignalConfig`: options of model, training and folds.
        folder: Folder of the run.
        processes: Number of folds at a time; 0 for one per processor, at most 8; by default
            ``jobs`` of the configuration, or else 1.
        report: Called with a line for every finished fold.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If a fold in the folder has other settings.
        Interrupted: If a signal arrived; everything is saved.
        TrainingError: If a training diverged, or a process was killed.
    """
    data = SignalData(standardized(recordings, config), digest_of(recordings))
    chosen = config.jobs if processes is None else processes
    count = 1 if chosen is None else chosen or min(os.cpu_count() or 1, MOST_PROCESSES)
    results = run_folds(data, jobs_of(recordings, config, folder), processes=count, report=report)
    return LosoResult.of_folds(results)


def run_folds(
    data: SignalData,
    jobs: Sequence[FoldJob],
    *,
    processes: int,
    report: Callable[[str], None],
) -> list[FoldResult]:
    """Run folds, each once, and return their results in the order of the jobs.

    Args:
        data: Recordings as the estimators take them, with the digest of those as read.
        jobs: The folds.
        processes: Number of worker processes; 1 runs the folds in this process.
        report: Called with a line for every finished fold.

    Raises:
        RepresenterError: See `run_loso`.
    """
    results = {job.folder: result for job in jobs if (result := finished(job, data))}
    waiting = [job for job in jobs if job.folder not in results]
    if results:
        report(f"{len(results)} of {len(jobs)} folds are finished already")

    def take(job: FoldJob, result: FoldResult) -> None:
        results[job.folder] = result
        report(f"{len(results)}/{len(jobs)} {result.line(data.recordings)}")

    if min(processes, len(waiting)) > 1:
        run_in_processes(data, waiting, processes, take)
    else:
        for job in waiting:
            take(job, run_fold(job, data))
    return [results[job.folder] for job in jobs]
