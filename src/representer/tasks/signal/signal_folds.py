"""Split subjects into training, validation and test; no subject is in two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
        check_sides({side: getattr(self, side) for side in SIDES})
        if not self.train:
            raise ArgumentError("train", (), f"at least one subject in fold {self.name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Fold:
        """Return the fold that `to_dict` described."""
        return cls(described["name"], *(tuple(described[side]) for side in SIDES))

    def parts(self, recordings: Recordings) -> dict[str, np.ndarray]:
        """Return the indices of the windows of each part, and check them.

        Raises:
            ArgumentError: If windows of one subject are in two parts.
        """
        rows = {
            side: np.flatnonzero(np.isin(recordings.subjects, getattr(self, side)))
            for side in SIDES
        }
        check_sides({side: recordings.subjects[numbers].tolist() for side, numbers in rows.items()})
        return rows


def check_sides(sides: dict[str, Sequence[str]]) -> None:
    """Check that no subject is in two parts.

    Args:
        sides: Subjects of each part by its name; repetitions within a part are allowed.

    Raises:
        ArgumentError: If a subject is in two parts.
    """
    seen: dict[str, str] = {}
    for side, subjects in sides.items():
        for subject in dict.fromkeys(subjects):
            if subject in seen:
                where = f"{seen[subject]} and {side}"
                raise ArgumentError(
                    "subject", subject, f"a subject in one part only, not in {where}"
                )
            seen[subject] = side


def leave_one_out(
    recordings: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> list[Fold]:
    """Return one fold for each subject, which tests on that subject.

    Args:
        recordings: The recordings.
        valid_fraction: Fraction of the other subjects used for early stopping; at least one, and
            one of each kind if subjects differ in their classes. 0: no early stopping.
        seed: Random seed of their selection.
        file: File named in error messages.

    Raises:
        DataError: If there are fewer than three subjects, or the training part lacks a class.
    """
    return [
        _fold(recordings, name, (name,), valid_fraction, seed, file)
        for name in subjects_of(recordings)
    ]


def groups_out(
    recordings: Recordings,
    count: int,
    valid_fraction: float,
    seed: int,
    *,
    file: str | Path | None = None,
) -> list[Fold]:
    """Return folds that leave several subjects out, each subject once.

    Args:
        recordings: The recordings.
        count: Number of folds, from 2 to the number of subjects.
        valid_fraction: As in `leave_one_out`.
        seed: Random seed of the groups and of the selection.
        file: File named in error messages.

    Raises:
        ArgumentError: If there are too few subjects for so many folds.
        DataError: As in `leave_one_out`.
    """
    subjects = subjects_of(recordings)
    if not 2 <= count <= len(subjects):
        raise ArgumentError("folds", count, f"0, or 2 to {len(subjects)}, the number of subjects")
    labels, of_rows = recordings.labels, recordings.subjects
    kinds = groups_by_classes(labels, of_rows, subjects, seed, "groups").values()
    dealt = [subject for of_kind in kinds for subject in of_kind]
    groups = [tuple(sorted(dealt[k::count])) for k in range(count)]
    return [
        _fold(recordings, f"group {k + 1}", group, valid_fraction, seed, file)
        for k, group in enumerate(groups)
    ]


def named_out(
    recordings: Recordings,
    test: Sequence[str],
    valid_fraction: float,
    seed: int,
    *,
    file: str | Path | None = None,
) -> list[Fold]:
    """Return one fold with these test subjects.

    Raises:
        DataError: If a subject is unknown; otherwise as in `leave_one_out`.
    """
    known = subjects_of(recordings)
    unknown = [name for name in test if name not in known]
    if unknown or not test:
        problem = f"there is no subject {', '.join(unknown)}; the subjects are {', '.join(known)}"
        raise DataError(problem, file=file)
    return [_fold(recordings, "test", tuple(dict.fromkeys(test)), valid_fraction, seed, file)]


def final_fold(
    recordings: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> Fold:
    """Return the fold of the final model: all subjects are for training or early stopping."""
    return _fold(recordings, FINAL, (), valid_fraction, seed, file)


def subjects_of(recordings: Recordings) -> list[str]:
    """Return the subjects in order of appearance."""
    return list(dict.fromkeys(recordings.subjects.tolist()))


def _fold(
    recordings: Recordings,
    name: str,
    test: tuple[str, ...],
    valid_fraction: float,
    seed: int,
    file: str | Path | None = None,
) -> Fold:
    others = [subject for subject in subjects_of(recordings) if subject not in test]
    needed = 2 if valid_fraction else 1
    if len(others) < needed:
        to_stop = ", and another one for early stopping" if valid_fraction else ""
        raise DataError(
            f"there are {len(others)} subjects besides the test subjects; expected at least "
            f"{needed}",
            file=file,
            fix=f"One is needed for training{to_stop}.",
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
