"""Objects with labels, split into parts, for a task that trains an estimator."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import Dropped, Grid, LabelMap, left_out, split
from representer.data.tables.source import open_regular
from representer.errors import DataError
from representer.estimators.classes import Classes
from representer.estimators.targets import Numbers
from representer.numbers import parse_number
from representer.printable import say
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
        dropped: Rows that were left out.
        reading: Options of reading, as detected.
        column: The column of the objects, for messages.
        label_column: The column of the labels, for messages.
        table: All rows of a table, which predictions are added to.
        is_numbered_by_line: True if users find an object by its line, not by its row.
        rows: Row of each object in its file, from 1.
    """

    source: str
    labels_file: str
    objects: Sequence[Any]
    labels: Sequence[str | None]
    lines: Sequence[int]
    files: tuple[Path, ...] = ()
    notes: Sequence[str] = ()
    dropped: Sequence[Dropped] = ()
    reading: dict[str, Any] = field(default_factory=dict)
    column: str | None = None
    label_column: str | None = None
    table: Grid | None = None
    is_numbered_by_line: bool = False
    rows: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", range(1, len(self.objects) + 1))

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def numbers(self) -> Sequence[int]:
        """The number by which users find each object, see `place`."""
        return self.lines if self.is_numbered_by_line else self.rows

    @property
    def place(self) -> str:
        """The unit of these numbers: line or row."""
        return "line" if self.is_numbered_by_line else "row"

    def subset(self, positions: Sequence[int]) -> Objects:
        """Return the objects at these positions."""
        chosen = {
            name: [getattr(self, name)[i] for i in positions]
            for name in ("objects", "labels", "lines", "rows")
        }
        return replace(self, **chosen)

    def usable(self, reason: Callable[[Any], str]) -> Objects:
        """Return the objects for which there is no reason against them; the others are dropped."""
        reasons = [reason(one) for one in self.objects]
        if not any(reasons):
            return self
        dropped = [Dropped(line, why) for line, why in zip(self.lines, reasons, strict=True) if why]
        kept = self.subset([i for i, why in enumerate(reasons) if not why])
        return replace(kept, dropped=sorted([*self.dropped, *dropped], key=lambda row: row.line))

    def say_notes(self) -> None:
        """Print the remarks, and the rows that were left out, on stderr."""
        for line in (*self.notes, left_out(self.dropped)):
            if line:
                say(f"{self.source}: {line}")

    def described(self, role: str) -> dict[str, Any]:
        """Return the source, and the rows that were left out, for the report."""
        lines: dict[str, list[int]] = {}
        for row in self.dropped:
            lines.setdefault(row.reason, []).append(row.line)
        return {
            "file": self.source,
            "role": role,
            "sha256": self.digest,
            "rows": len(self) + len(self.dropped),
            "kept": len(self),
            "dropped": [
                {"reason": reason, "count": len(at), "lines": at[:5]}
                for reason, at in lines.items()
            ],
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the file or of all files, or of the objects if they come from no file."""
        digests = []
        for path in self.files:
            with open_regular(path) as file:
                digests.append(hashlib.file_digest(file, "sha256"))
        if len(digests) == 1 and not Path(self.source).is_dir():
            return digests[0].hexdigest()
        total = hashlib.sha256(b"".join(digest.digest() for digest in digests))
        if not digests:
            total.update(repr((self.source, self.labels)).encode())
        return total.hexdigest()


@dataclass(frozen=True)
class Data:
    """The data of a run.

    Attributes:
        target: The classes, or the standardized numbers.
        parts: Training, validation and test objects, by name.
        values: Their encoded labels: numbers of classes, or numbers ``(N,)``.
        sources: Each file or folder that was read, with its role.
        inputs: How objects become batches, learned from the training objects.
        encoded: The objects of each part as the network's inputs.
        facts: On the objects, for the report.
        resources: Parameters of the estimator that were read from files.
    """

    target: Classes | Numbers
    parts: dict[str, Objects]
    values: dict[str, NDArray[Any]]
    sources: list[tuple[str, Objects]]
    inputs: Any = None
    encoded: dict[str, Sequence[Any]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """True if the labels are numbers."""
        return isinstance(self.target, Numbers)

    @property
    def names(self) -> list[str]:
        """Names of the classes; none for numbers."""
        return names_of(self.target)

    def splits(self) -> dict[str, Any]:
        """Return the rows or lines of each part, counted from 1, as in splits.json."""
        parts = {
            name: {"source": part.source, f"{part.place}s": list(part.numbers)}
            for name, part in self.parts.items()
        }
        return {"sha256": {one.source: one.digest for _, one in self.sources}, **parts}

    def described(self, facts: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return counts, sources and facts, also those given, for the report."""
        roles = {"all": "training, and parts without their own data"}
        return {
            "sources": [one.described(roles.get(name, name)) for name, one in self.sources],
            **{name: len(part) for name, part in self.parts.items()},
            "labels": self._labels(),
            "facts": {**self.facts, **(facts or {})},
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


def names_of(target: Any) -> list[str]:
    """Return the names of the classes as text; none for numbers."""
    return [str(name) for name in target.names] if isinstance(target, Classes) else []


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
    encoded = {name: encode_labels(one, names) for name, one in sources.items()}
    own = {name: share for name, share in fractions.items() if name not in sources}
    division = _positions(main, encoded["all"], own, seed, is_regression)
    of_part = dict(zip(("train", *own), division, strict=True))
    parts, values = {}, {}
    for name in PARTS:
        source = "all" if name in of_part else name
        positions = of_part.get(name, range(len(sources[source])))
        parts[name] = sources[source].subset(positions)
        values[name] = encoded[source][list(positions)]
    try:
        target = Numbers.find(values["train"]) if is_regression else Classes(tuple(names))
    except DataError as error:
        problem = str(error).replace("y has", "the training part has")
        raise DataError(problem, file=main.labels_file) from None
    if not is_regression and len(set(values["train"].tolist())) < 2:
        fix = "Add examples of the other classes."
        raise DataError("only one class is left to train on", file=main.labels_file, fix=fix)
    return Data(target, parts, values, list(sources.items()))


def encode_labels(source: Objects, names: Sequence[str]) -> NDArray[Any]:
    """Return the number of each class, or without classes the numbers themselves ``(N,)``.

    Raises:
        DataError: A label is not one of the classes or not a finite number; with file and line.
    """
    values: list[float] = []
    classes = LabelMap(tuple(names)) if names else None
    for label, line in zip(source.labels, source.lines, strict=True):
        place: Any = {"file": source.labels_file, "line": line, "column": source.label_column}
        if classes:
            values.append(classes.encode(label or "", **place))
            continue
        number = parse_number(label) if label is not None else None
        if number is None or not math.isfinite(number):
            problem = f"the label is {label!r:.60}; expected a finite number"
            raise DataError(problem, **place)
        values.append(number)
    return np.array(values, dtype=np.int64 if names else np.float64)


def _classes(main: Objects) -> list[str]:
    names = list(LabelMap.build(label for label in main.labels if label).names)
    if len(names) < 2:
        problem = f"all {len(main)} labels are {names[0]!r:.60}"
        fix = "A classifier needs at least two classes; are these the right labels?"
        raise DataError(problem, file=main.labels_file, column=main.label_column, fix=fix)
    return names


def _positions(
    main: Objects,
    values: NDArray[Any],
    fractions: dict[str, float],
    seed: int,
    is_regression: bool,
) -> Sequence[Sequence[int]]:
    """Return the positions of the training part and of each other part."""
    shares = (1 - sum(fractions.values()), *fractions.values())
    if not fractions:
        return [range(len(main))]
    if not is_regression:
        try:
            return list(split([str(number) for number in values.tolist()], shares, seed))
        except DataError as error:
            raise DataError(str(error), file=main.labels_file) from None
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(len(main))
    counts = [max(1, round(share * len(main))) for share in fractions.values()]
    if sum(counts) > len(main) - 2:
        problem = f"{len(main)} rows cannot be divided into training, validation and test parts"
        raise DataError(problem, file=main.labels_file, fix="Add data.")
    parts = np.split(order, np.cumsum(counts))
    return [sorted(part.tolist()) for part in (parts[-1], *parts[:-1])]
