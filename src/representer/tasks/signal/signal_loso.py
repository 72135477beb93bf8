"""Leave-one-subject-out cross-validation, each fold in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.printable import say
from representer.tasks.signal.signal_data import digest_of, standardized
from representer.tasks.signal.signal_fold import FoldData, FoldJob, FoldResult, folder_name
from representer.tasks.signal.signal_folds import Fold, folds_of, subjects_of
from representer.tasks.signal.signal_processes import run_folds

FOLDS = "folds"


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
        rows = np.concatenate([fold.rows for fold in folds])
        probabilities = np.concatenate([fold.probabilities for fold in folds])
        order = np.argsort(rows, kind="stable")
        return cls(tuple(folds), rows[order], probabilities[order])

    @property
    def seconds(self) -> float:
        """Training time of all folds."""
        return sum(fold.seconds for fold in self.folds)

    def accuracy_by_subject(self, recordings: Recordings) -> dict[str, float]:
        """Return the accuracy on each test subject."""
        return accuracy_by_subject(recordings, self.rows, self.probabilities.argmax(axis=1))


def accuracy_by_subject(
    recordings: Recordings, rows: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Return the accuracy on each subject, in the order of the recordings.

    Args:
        recordings: The recordings.
        rows: Indices of the predicted windows.
        predicted: Predicted class of each ``(rows,)``.
    """
    right, subjects = predicted == recordings.labels[rows], recordings.subjects[rows]
    return {s: float(right[subjects == s].mean()) for s in subjects_of(recordings) if s in subjects}


def plan(recordings: Recordings, config: Any) -> list[Fold]:
    """Return the folds of a `SignalConfig`; see `folds_of`."""
    return folds_of(
        recordings, config.valid_fraction, config.seed,
        count=config.folds, tested=config.tested, file=config.data,
    )  # fmt: skip


def jobs_of(recordings: Recordings, config: Any, folder: str | Path) -> list[FoldJob]:
    """Return the jobs of a run, one folder per fold; jobs of several runs can run together."""
    place = Path(folder) / FOLDS
    return [
        FoldJob(replace(config, resume=False), fold, place / folder_name(fold, k))
        for k, fold in enumerate(plan(recordings, config))
    ]


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
        processes: Number of folds at a time; ``jobs`` of the configuration if left out, 0 for one
            per processor.
        report: Called with a line for every finished fold.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If a fold in the folder has other settings.
        Interrupted: If a signal arrived; everything is saved.
    """
    data = FoldData(standardized(recordings, config), digest_of(recordings))
    count = config.jobs if processes is None else processes
    jobs = jobs_of(recordings, config, folder)
    results = run_folds(data, jobs, processes=count or os.cpu_count() or 1, report=report)
    return LosoResult.of_folds(results)
