"""Split subjects into training, validation and test; no subject is in two parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.errors import ArgumentError, DataError
from representer.estimators.division import FINAL, groups_by_classes, held_out_groups

SIDES = ("train", "valid", "test")


@dataclass(frozen=True)
class Fold:
    """The subjects of one training and its test.

    Attributes:
        name: Name of the fold; the subject, if one subject is left out.
        train: Training subjects.
        valid: Subjects for early stopping; none if the last epoch is used.
        test: Test subjects; none for the final model.

    Raises:
        ArgumentError: If a subject is in two parts, or there is no training subject.
    """

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        sides: dict[str, str] = {}
        for side in SIDES:
            for subject in getattr(self, side):
                if sides.setdefault(subject, side) != side:
                    expected = f"a subject in one part only, not in {sides[subject]} and {side}"
                    raise ArgumentError("subject", subject, expected)
        if not self.train:
            raise ArgumentError("train", (), f"at least one subject in fold {self.name!r}")

    def folder_name(self, number: int) -> str:
        """Return the name of the fold's folder: its number, and its name with safe characters."""
        return f"{number:03d}-{re.sub(r'[^A-Za-z0-9_-]+', '_', self.name)[:60]}"

    def parts(self, recordings: Recordings) -> dict[str, np.ndarray]:
        """Return the indices of the windows of each part."""
        return {
            side: np.flatnonzero(np.isin(recordings.subjects, getattr(self, side)))
            for side in SIDES
        }


def plan(recordings: Recordings, config: Any) -> list[Fold]:
    """Return the folds of a `SignalConfig`; see `folds_of`."""
    return folds_of(
        recordings, config.valid_fraction, config.seed,
        count=config.folds, tested=config.tested, file=config.data,
    )  # fmt: skip


def folds_of(
    recordings: Recordings,
    valid_fraction: float,
    seed: int,
    *,
    count: int = 0,
    tested: Sequence[str] = (),
    file: str | Path | None = None,
) -> list[Fold]:
    """Return folds that leave each subject out once, alone or in a group.

    Args:
        recordings: The recordings.
        valid_fraction: Fraction of the other subjects used for early stopping; at least one, and
            one of each kind if subjects differ in their classes. 0: no early stopping.
        seed: Random seed of the groups and of the subjects for early stopping.
        count: Number of groups, from 2 to the number of subjects; 0 for one fold per subject.
        tested: The test subjects of a single fold, instead of all folds.
        file: File named in error messages.

    Raises:
        ArgumentError: If there are fewer subjects than groups.
        DataError: If there are too few subjects, one is unknown, or the training part lacks a
            class.
    """
    subjects = subjects_of(recordings)
    if tested:
        if unknown := [name for name in tested if name not in subjects]:
            listed = ", ".join(subjects)
            problem = f"there is no subject {', '.join(unknown)}; the subjects are {listed}"
            raise DataError(problem, file=file)
        left_out = {"test": tuple(dict.fromkeys(tested))}
    elif count:
        if not 2 <= count <= len(subjects):
            expected = f"0, or 2 to {len(subjects)}, the number of subjects"
            raise ArgumentError("folds", count, expected)
        labels, of_rows = recordings.labels, recordings.subjects
        kinds = groups_by_classes(labels, of_rows, subjects, seed, "groups").values()
        dealt = [subject for of_kind in kinds for subject in of_kind]
        left_out = {f"group {k + 1}": tuple(sorted(dealt[k::count])) for k in range(count)}
    else:
        left_out = {name: (name,) for name in subjects}
    return [
        _fold(recordings, name, test, valid_fraction, seed, file) for name, test in left_out.items()
    ]


def final_fold(
    recordings: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> Fold:
    """Return the fold of the final model: all subjects are for training or early stopping."""
    return _fold(recordings, FINAL, (), valid_fraction, seed, file)


def subjects_of(recordings: Recordings) -> list[str]:
    """Return the subjects in order of appearance."""
    return list(dict.fromkeys(recordings.subjects.tolist()))


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


def joined(folds: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of all folds in ascending order, and the probabilities of these windows."""
    rows, probabilities = map(np.concatenate, zip(*folds, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], probabilities[order]


def _fold(
    recordings: Recordings,
    name: str,
    test: tuple[str, ...],
    valid_fraction: float,
    seed: int,
    file: str | Path | None,
) -> Fold:
    others = [subject for subject in subjects_of(recordings) if subject not in test]
    needed = 2 if valid_fraction else 1
    if len(others) < needed:
        to_stop = ", and another one for early stopping" if valid_fraction else ""
        raise DataError(
            f"there are {len(others)} subjects besides the test subjects; expected at least "
            f"{needed}",
            file=file,
            fix=f"One is needed for training{to_stop}. Sessions of one subject can stand for "
            "subjects.",
        )
    valid = set[str]()
    if valid_fraction:
        valid = held_out_groups(
            recordings.labels, recordings.subjects, others, valid_fraction, seed, name
        )
    train = tuple(subject for subject in others if subject not in valid)
    rows = np.isin(recordings.subjects, train)
    missing = sorted(set(range(len(recordings.classes))) - set(recordings.labels[rows].tolist()))
    if missing:
        names = ", ".join(recordings.classes[k] for k in missing)
        raise DataError(
            f"the training subjects of fold {name!r} have no window of {names}",
            file=file,
            fix="Add subjects with this class, or remove the class.",
        )
    return Fold(name, train, tuple(s for s in others if s in valid), test)
