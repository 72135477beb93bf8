"""Every subject left out in turn: folds in processes of their own, each run once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from representer.data.signals import Recordings
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
from representer.tasks.training.progress import say

FOLDS = "folds"


@dataclass(frozen=True)
class LosoResult:
    """What all folds together have answered.

    Attributes:
        folds: In their order.
        rows: The numbers of the windows that were tested, in rising order.
        probabilities: What was answered for them ``(rows, classes)``.
    """

    folds: tuple[FoldResult, ...]
    rows: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of_folds(cls, folds: Sequence[FoldResult]) -> LosoResult:
        """Put the answers of the folds together."""
        rows = np.concatenate([fold.rows for fold in folds])
        probabilities = np.concatenate([fold.probabilities for fold in folds])
        order = np.argsort(rows, kind="stable")
        return cls(tuple(folds), rows[order], probabilities[order])

    @property
    def seconds(self) -> float:
        """Time of training, of all folds."""
        return sum(fold.seconds for fold in self.folds)

    def accuracy_by_subject(self, of: Recordings) -> dict[str, float]:
        """Return the share of right answers of each tested subject."""
        return accuracy_by_subject(of, self.rows, self.probabilities.argmax(axis=1))


def accuracy_by_subject(
    of: Recordings, rows: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Return the share of right answers of each subject, in the order of the recordings.

    Args:
        of: The recordings.
        rows: The numbers of the windows that were answered.
        predicted: The class of each ``(rows,)``.
    """
    right, subjects = predicted == of.labels[rows], of.subjects[rows]
    return {s: float(right[subjects == s].mean()) for s in subjects_of(of) if s in subjects}


def plan(of: Recordings, config: SignalConfig) -> list[Fold]:
    """Return the folds that a configuration asks for.

    Raises:
        DataError: If there are too few subjects, or none of a name.
        ArgumentError: If there are fewer subjects than groups.
    """
    share, seed, file = config.valid_fraction, config.seed, config.data
    if config.tested:
        return named_out(of, config.tested, share, seed, file=file)
    if config.folds:
        return groups_out(of, config.folds, share, seed, file=file)
    return leave_one_out(of, share, seed, file=file)


def jobs_of(of: Recordings, config: SignalConfig, folder: str | Path) -> list[FoldJob]:
    """Return the folds of a run, in their folders; those of several runs can be run together."""
    place = Path(folder) / FOLDS
    return [
        FoldJob(replace(config, resume=False), fold, place / folder_name(fold, k))
        for k, fold in enumerate(plan(of, config))
    ]


def run_loso(
    of: Recordings,
    config: SignalConfig,
    folder: str | Path,
    *,
    processes: int | None = None,
    report: Callable[[str], None] = say,
) -> LosoResult:
    """Leave every subject, or group of subjects, out in turn.

    Each fold is a run of its own in ``folder/folds/NAME``, with fresh weights. What is finished
    there is not run again, what was interrupted goes on.

    Args:
        of: The recordings: resampled and cut, not standardized.
        config: Of the model, its training and the folds.
        folder: Where the folds are kept.
        processes: How many folds at once; the configuration's ``jobs`` if left out, 0 for one per
            processor.
        report: Is told of every fold that has ended.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If a folder's fold was run with other settings.
        Interrupted: If a signal came; everything is saved.
    """
    jobs = jobs_of(of, config, folder)
    count = config.jobs if processes is None else processes
    processes = count or os.cpu_count() or 1
    found = run_folds(of, jobs, digest=digest_of(of), processes=processes, report=report)
    return LosoResult.of_folds(found)


def digest_of(of: Recordings) -> str:
    """Return a digest of all that is in recordings."""
    found = hashlib.sha256()
    names = repr(
        (of.classes, of.channels, of.sampling_rate, of.signals.shape, of.subjects.tolist())
    )
    found.update(names.encode())
    for array in (of.signals, of.labels):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
