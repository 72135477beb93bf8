"""Objects with labels, split into parts, for a task that trains an estimator."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import split
from representer.data.tables.source import open_regular
from representer.errors import DataError
from representer.estimators.classes import Classes
from representer.estimators.targets import Numbers
from representer.numbers import parse_number
from representer.training import generators

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Objects:
    """Objects as they were read.

    Attributes:
        source: Path of the file or folder, or what the objects are.
        labels_file: The file with the labels, for messages.
        objects: As the estimator takes them.
        labels: The label of each as text, None if it has none.
        lines: Line of each label, for messages.
        files: All files that were read.
        notes: Remarks for the user.
    """

    source: str
    labels_file: str
    objects: Sequence[Any]
    labels: Sequence[str | None]
    lines: Sequence[int]
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.objects)

    def subset(self, rows: Sequence[int]) -> Objects:
        """Return the objects in these rows."""
        return replace(
            self,
            objects=[self.objects[row] for row in rows],
            labels=[self.labels[row] for row in rows],
            lines=[self.lines[row] for row in rows],
        )

    @property
    def digest(self) -> str:
        """SHA-256 of all files, or of the objects if they come from no file."""
        total = hashlib.sha256()
        for path in self.files:
            with open_regular(path) as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        if not self.files:
            total.update(repr((self.source, self.labels)).encode())
        return total.hexdigest()


@dataclass(frozen=True)
class Data:
    """The data of a run.

    Attributes:
        target: The classes, or the standardized numbers.
        parts: Training, validation and test objects, by name.
        values: Their encoded labels: numbers of classes, or numbers ``(N,)``.
        rows: The rows of each part in its file, from 0.
        sources: Each file or folder that was read, with its role.
    """

    target: Classes | Numbers
    parts: dict[str, Objects]
    values: dict[str, NDArray[Any]]
    rows: dict[str, list[int]]
    sources: list[tuple[str, Objects]]

    @property
    def is_regression(self) -> bool:
        """True if the labels are numbers."""
        return isinstance(self.target, Numbers)

    def splits(self) -> dict[str, Any]:
        """Return the rows of each part, counted from 1, as in splits.json."""
        parts = {
            name: {"source": part.source, "rows": [row + 1 for row in self.rows[name]]}
            for name, part in self.parts.items()
        }
        return {"sha256": {one.source: one.digest for _, one in self.sources}, **parts}

    def described(self) -> dict[str, Any]:
        """Return counts and sources, for the report."""
        roles = {"all": "training, and parts without their own data"}
        return {
            "sources": [
                {
                    "file": one.source,
                    "role": roles.get(name, name),
                    "sha256": one.digest,
                    "rows": len(one),
                    "kept": len(one),
                    "dropped": [],
                }
                for name, one in self.sources
            ],
            **{name: len(part) for name, part in self.parts.items()},
            "labels": self._labels(),
        }

    def _labels(self) -> dict[str, Any]:
        train = self.values["train"]
        if isinstance(self.target, Classes):
            counts = Counter(train.tolist())
            return {str(name): counts[number] for number, name in enumerate(self.target.names)}
        return {
            "mean": float(train.mean()), "standard deviation": float(train.std()),
            "minimum": float(train.min()), "maximum": float(train.max()),
        }  # fmt: skip


def are_fractions(labels: Sequence[str | None]) -> bool:
    """Return True if all labels are finite numbers and at least one of them is not an integer."""
    numbers = [parse_number(label) if label else None for label in labels]
    known = [number for number in numbers if number is not None and math.isfinite(number)]
    return len(known) == len(labels) and not all(number.is_integer() for number in known)


def divided(
    sources: dict[str, Objects], fractions: dict[str, float], seed: int, *, is_regression: bool
) -> Data:
    """Split the parts without their own data from the main ones, and encode all labels.

    Args:
        sources: The main objects as ``"all"``, and those of ``"valid"`` and ``"test"``.
        fractions: Of validation and test.
        seed: Determines the split.
        is_regression: True if labels are numbers.

    Raises:
        DataError: A label cannot be used, or there are too few objects.
    """
    main = sources["all"]
    names = [] if is_regression else _classes(main)
    encoded = {name: encode_labels(one, names or None) for name, one in sources.items()}
    own = {name: share for name, share in fractions.items() if name not in sources}
    division = dict(zip(("train", *own), _rows(main, own, seed, is_regression), strict=True))
    parts, values, rows = {}, {}, {}
    for name in PARTS:
        is_divided = name in division
        source = "all" if is_divided else name
        rows[name] = division[name] if is_divided else list(range(len(sources[name])))
        parts[name] = sources[source].subset(rows[name])
        values[name] = encoded[source][rows[name]]
    try:
        target = Numbers.find(values["train"]) if is_regression else Classes(tuple(names))
    except DataError as error:
        problem = str(error).replace("y has", "the training part has")
        raise DataError(problem, file=main.labels_file) from None
    if not is_regression and len(set(values["train"].tolist())) < 2:
        raise DataError("only one class is left to train on", file=main.labels_file)
    return Data(target, parts, values, rows, list(sources.items()))


def encode_labels(source: Objects, names: Sequence[str] | None) -> NDArray[Any]:
    """Return the number of each class, or without classes the numbers themselves ``(N,)``.

    Raises:
        DataError: A label is not one of the classes or not a finite number; with file and line.
    """
    values: list[float] = []
    number_of = {name: number for number, name in enumerate(names or ())}
    for label, line in zip(source.labels, source.lines, strict=True):
        if names is None:
            number = parse_number(label) if label is not None else None
            expected = "a finite number"
            is_fine = number is not None and math.isfinite(number)
        else:
            number = number_of.get(label or "")
            listed = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
            expected = f"one of {listed}"
            is_fine = number is not None
        if not is_fine or number is None:
            problem = f"the label is {label!r:.60}; expected {expected}"
            raise DataError(problem, file=source.labels_file, line=line)
        values.append(number)
    return np.array(values, dtype=np.float64 if names is None else np.int64)


def _classes(main: Objects) -> list[str]:
    names = sorted({label for label in main.labels if label is not None})
    if len(names) < 2:
        problem = f"all labels are {names[0]!r:.60}; there is nothing to learn"
        raise DataError(problem, file=main.labels_file)
    return names


def _rows(
    main: Objects, fractions: dict[str, float], seed: int, is_regression: bool
) -> Sequence[list[int]]:
    """Return the rows of the training part and of each other part."""
    shares = (1 - sum(fractions.values()), *fractions.values())
    if not fractions:
        return [list(range(len(main)))]
    if not is_regression:
        try:
            return list(split([str(label) for label in main.labels], shares, seed))
        except DataError as error:
            raise DataError(str(error), file=main.labels_file) from None
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(len(main))
    counts = [max(1, round(share * len(main))) for share in fractions.values()]
    if sum(counts) > len(main) - 2:
        problem = f"{len(main)} rows cannot be divided into training, validation and test parts"
        raise DataError(problem, file=main.labels_file, fix="Add data.")
    parts = np.split(order, np.cumsum(counts))
    return [sorted(part.tolist()) for part in (parts[-1], *parts[:-1])]
