"""Leave-one-subject-out cross-validation, each fold in a process of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from representer.data.signals import Recordings
from representer.printable import say
from representer.tasks.signal.signal_config import SignalConfig
from representer.tasks.signal.signal_fold import FoldJob, FoldResult, folder_name
from representer.tasks.signal.signal_folds import (
    Fold,
    groups_out,
    leave_one_out,
    named_out,
    subjects_of,
)
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


def plan(recordings: Recordings, config: SignalConfig) -> list[Fold]:
    """Return the folds of a configuration.

    Raises:
        DataError: If there are too few subjects, or an unknown subject is named.
        ArgumentError: If there are fewer subjects than groups.
    """
    share, seed, file = config.valid_fraction, config.seed, config.data
    if config.tested:
        return named_out(recordings, config.tested, share, seed, file=file)
    if config.folds:
        return groups_out(recordings, config.folds, share, seed, file=file)
    return leave_one_out(recordings, share, seed, file=file)


def jobs_of(recordings: Recordings, config: SignalConfig, folder: str | Path) -> list[FoldJob]:
    """Return the jobs of a run, one folder per fold; jobs of several runs can run together."""
    place = Path(folder) / FOLDS
    return [
        FoldJob(replace(config, resume=False), fold, place / folder_name(fold, k))
        for k, fold in enumerate(plan(recordings, config))
    ]


def run_loso(
    recordings: Recordings,
    config: SignalConfig,
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
        config: Options of model, training and folds.
        folder: Folder of the run.
        processes: Number of folds at a time; ``jobs`` of the configuration if left out, 0 for one
            per processor.
        report: Called with a line for every finished fold.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If a fold in the folder has other settings.
        Interrupted: If a signal arrived; everything is saved.
    """
    jobs = jobs_of(recordings, config, folder)
    count = config.jobs if processes is None else processes
    processes = count or os.cpu_count() or 1
    results = run_folds(
        recordings, jobs, digest=digest_of(recordings), processes=processes, report=report
    )
    return LosoResult.of_folds(results)


def digest_of(recordings: Recordings) -> str:
    """Return a digest of recordings."""
    digest = hashlib.sha256()
    names = repr(
        (
            recordings.classes,
            recordings.channels,
            recordings.sampling_rate,
            recordings.signals.shape,
            recordings.subjects.tolist(),
        )
    )
    digest.update(names.encode())
    for array in (recordings.signals, recordings.labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
