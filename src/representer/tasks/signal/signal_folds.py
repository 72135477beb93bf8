"""Who is trained on, who stops the training, and who is tested: never one subject for two of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.errors import ArgumentError, DataError
from representer.tasks.training import generators

SIDES = ("train", "valid", "test")
FINAL = "final"


@dataclass(frozen=True)
class Fold:
    """The subjects of one training, and of its test.

    Attributes:
        name: Of the fold; of those who leave one subject out, the subject.
        train: Whose windows the weights are fitted to.
        valid: Whose windows say which epoch was best; none if the last is taken.
        test: Whose windows are answered at the end; none of the model that is kept.

    Raises:
        ArgumentError: If a subject stands on two sides, or nobody is trained on.
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
        """Return it as JSON holds it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Fold:
        """Return what `to_dict` described."""
        return cls(found["name"], *(tuple(found[side]) for side in SIDES))

    def parts(self, of: Recordings) -> dict[str, np.ndarray]:
        """Return the numbers of the windows of each side, after a check of the windows themselves.

        Raises:
            ArgumentError: If the windows of a subject come on two sides.
        """
        rows = {side: np.flatnonzero(np.isin(of.subjects, getattr(self, side))) for side in SIDES}
        check_sides({side: of.subjects[numbers].tolist() for side, numbers in rows.items()})
        return rows


def check_sides(sides: dict[str, Sequence[str]]) -> None:
    """Check that no subject stands on two sides.

    Args:
        sides: The subjects of each side, by its name; one may occur several times on one side.

    Raises:
        ArgumentError: If one does.
    """
    seen: dict[str, str] = {}
    for side, subjects in sides.items():
        for subject in dict.fromkeys(subjects):
            if subject in seen:
                where = f"{seen[subject]} and {side}"
                raise ArgumentError("subject", subject, f"one side for it, and not {where}")
            seen[subject] = side


def leave_one_out(
    of: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> list[Fold]:
    """Return one fold for each subject, who is tested.

    Args:
        of: The recordings.
        valid_fraction: The part of the other subjects that stops the training; at least one, and
            one of each kind where subjects differ in the classes they have. 0: nobody.
        seed: Who that is depends on it.
        file: Named in messages.

    Raises:
        DataError: If there are fewer than three subjects, or the training side lacks a class.
    """
    return [_fold(of, name, (name,), valid_fraction, seed, file) for name in subjects_of(of)]


def groups_out(
    of: Recordings,
    count: int,
    valid_fraction: float,
    seed: int,
    *,
    file: str | Path | None = None,
) -> list[Fold]:
    """Return folds that leave several subjects out, each subject once.

    Args:
        of: The recordings.
        count: How many folds; from 2 to the number of subjects.
        valid_fraction: As in `leave_one_out`.
        seed: The groups depend on it too.
        file: Named in messages.

    Raises:
        ArgumentError: If there are too few subjects for so many folds.
        DataError: As in `leave_one_out`.
    """
    subjects = subjects_of(of)
    if not 2 <= count <= len(subjects):
        raise ArgumentError("folds", count, f"0, or 2 to {len(subjects)}, the number of subjects")
    kinds = _by_classes(of, subjects, seed, "groups").values()
    dealt = [subject for of_kind in kinds for subject in of_kind]
    groups = [tuple(sorted(dealt[k::count])) for k in range(count)]
    return [
        _fold(of, f"group {k + 1}", group, valid_fraction, seed, file)
        for k, group in enumerate(groups)
    ]


def named_out(
    of: Recordings,
    test: Sequence[str],
    valid_fraction: float,
    seed: int,
    *,
    file: str | Path | None = None,
) -> list[Fold]:
    """Return one fold, with these subjects to test.

    Raises:
        DataError: If there is no such subject; else as in `leave_one_out`.
    """
    known = subjects_of(of)
    unknown = [name for name in test if name not in known]
    if unknown or not test:
        problem = f"there is no subject {', '.join(unknown)}; there are {', '.join(known)}"
        raise DataError(problem, file=file)
    return [_fold(of, "test", tuple(dict.fromkeys(test)), valid_fraction, seed, file)]


def final_fold(
    of: Recordings, valid_fraction: float, seed: int, *, file: str | Path | None = None
) -> Fold:
    """Return the fold of the model that is kept: all subjects train it or stop it."""
    return _fold(of, FINAL, (), valid_fraction, seed, file)


def subjects_of(of: Recordings) -> list[str]:
    """Return the subjects in the order in which they occur."""
    return list(dict.fromkeys(of.subjects.tolist()))


def _fold(
    of: Recordings,
    name: str,
    test: tuple[str, ...],
    valid_fraction: float,
    seed: int,
    file: str | Path | None = None,
) -> Fold:
    others = [subject for subject in subjects_of(of) if subject not in test]
    needed = 2 if valid_fraction else 1
    if len(others) < needed:
        to_stop = ", and another to say when to stop" if valid_fraction else ""
        raise DataError(
            f"there are {len(others)} subjects besides those to test; expected at least {needed}",
            file=file,
            mend=f"One is needed to train on{to_stop}.",
        )
    valid = _stopping(of, others, valid_fraction, seed, name) if valid_fraction else set[str]()
    train = tuple(subject for subject in others if subject not in valid)
    rows = np.isin(of.subjects, train)
    missing = sorted(set(range(len(of.classes))) - set(of.labels[rows].tolist()))
    if missing:
        names = ", ".join(of.classes[k] for k in missing)
        raise DataError(
            f"the subjects that fold {name!r} is trained on have no window of {names}",
            file=file,
            mend="Give more subjects with it, or leave the class out.",
        )
    return Fold(name, train, tuple(s for s in others if s in valid), test)


def _stopping(
    of: Recordings, others: Sequence[str], fraction: float, seed: int, name: str
) -> set[str]:
    """Return those who say when to stop, from each kind of subject in proportion.

    Nobody is taken without whom a class could not be learned, as long as there is somebody else.
    """
    kinds = _by_classes(of, others, seed, name)
    count = max(len(kinds), round(fraction * len(others)))
    keyed = [
        ((rank + 0.5) / len(of_kind), subject)
        for of_kind in kinds.values()
        for rank, subject in enumerate(of_kind)
    ]
    order = [subject for _, subject in sorted(keyed, key=lambda k: k[0])]
    classes = {subject: set(kind) for kind, of_kind in kinds.items() for subject in of_kind}
    known, chosen = set().union(*classes.values()), set[str]()
    for subject in order:
        left = [other for other in order if other not in chosen and other != subject]
        if len(chosen) < count and left and set().union(*(classes[o] for o in left)) == known:
            chosen.add(subject)
    return chosen or set(order[:1])


def _by_classes(
    of: Recordings, subjects: Sequence[str], seed: int, name: str
) -> dict[tuple[int, ...], list[str]]:
    """Return the subjects in drawn order, by which classes they have."""
    rng = np.random.default_rng(generators.derive(seed, "subjects", name))
    kinds: dict[tuple[int, ...], list[str]] = {}
    for subject in rng.permutation(np.asarray(subjects, dtype=object)).tolist():
        classes = np.unique(of.labels[of.subjects == subject])
        kinds.setdefault(tuple(classes.tolist()), []).append(subject)
    return kinds
