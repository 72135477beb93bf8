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

from representer.data.tables import Dropped, Grid, left_out, split
from representer.data.tables.source import open_regular
from representer.errors import DataError
from representer.estimators.targets import Numbers
from representer.numbers import parse_number
from representer.printable import say
from representer.tasks.estimator_targets import (
    Column,
    Target,
    columns_of,
    encode_labels,
    find_classes,
    find_target,
)
from representer.training import generators

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Objects:
    """Objects as they were read.

    Attributes:
        source: Path of the file or folder, or what the objects are.
        labels_file: The file with the labels, for messages.
        objects: As the estimator takes them.
        labels: The label of each as text, None if it has none; see `targets`.
        lines: Line of each label, for messages.
        files: All files that were read.
        notes: Remarks for the user.
        dropped: Rows that were left out.
        reading: Options of reading, as detected.
        column: The column of the objects, for messages.
        label_column: The column of the labels, for messages.
        targets: Names of the targets; each label is then a tuple with a text for each of them,
            which is empty where unknown if there are several.
        table: All rows of a table, which predictions are added to.
        is_numbered_by_line: True if users find an object by its line, not by its row.
        rows: Row of each object in its file, from 1.
    """

    source: str
    labels_file: str
    objects: Sequence[Any]
    labels: Sequence[Any]
    lines: Sequence[int]
    files: tuple[Path, ...] = ()
    notes: Sequence[str] = ()
    dropped: Sequence[Dropped] = ()
    reading: dict[str, Any] = field(default_factory=dict)
    column: str | None = None
    label_column: str | None = None
    targets: Sequence[str] = ()
    table: Grid | None = None
    is_numbered_by_line: bool = False
    rows: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", range(1, len(self.objects) + 1))

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def columns(self) -> list[tuple[str | None, Sequence[str | None]]]:
        """The column and the labels of each target."""
        if not self.targets:
            return [(self.label_column, self.labels)]
        return [(name, [cells[k] for cells in self.labels]) for k, name in enumerate(self.targets)]

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
            lines.setdefault(row.reason.partition(" '")[0], []).append(row.line)
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
        values: Their encoded labels: numbers of classes, or numbers, ``(N,)`` or ``(N, K)``.
        sources: Each file or folder that was read, with its role.
        inputs: How objects become batches, learned from the training objects.
        encoded: The objects of each part as the network's inputs.
        facts: On the objects, for the report.
        resources: Parameters of the estimator that were read from files.
    """

    target: Target
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
    def targets(self) -> Sequence[str]:
        """Names of the targets; none for a single target without a name."""
        return self.sources[0][1].targets

    def columns(self, part: str) -> list[Column]:
        """Return each target of a part."""
        return columns_of(self.targets, self.values[part], self.target)

    def splits(self) -> dict[str, Any]:
        """Return the rows or lines of each part, counted from 1, as in splits.json."""
        parts = {
            name: {"source": part.source, f"{part.place}s": list(part.numbers)}
            for name, part in self.parts.items()
        }
        return {"sha256": {one.source: one.digest for _, one in self.sources}, **parts}

    def skipped(self) -> list[tuple[str, str, str]]:
        """Return skipped.csv: the rows that were left out, below a header if there are any."""
        rows = [(o.source, str(r.line), r.reason) for _, o in self.sources for r in o.dropped]
        return [("file", "line", "reason"), *rows] if rows else []

    def described(self, facts: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return counts, sources and facts, also those given, for the report."""
        roles = {"all": "training, and parts without their own data"}
        return {
            "sources": [one.described(roles.get(name, name)) for name, one in self.sources],
            **{name: len(part) for name, part in self.parts.items()},
            "labels": self._labels(),
            "facts": {**self.facts, **(facts or {})},
        }

    def _labels(self) -> dict[str, dict[str, Any]]:
        labels: dict[str, dict[str, Any]] = {}
        for column in self.columns("train"):
            known = column.truth[column.known()]
            counts = Counter(known.tolist())
            labels[column.name] = {
                name: counts[number] for number, name in enumerate(column.classes)
            } or {
                "mean": float(known.mean()), "standard deviation": float(known.std()),
                "minimum": float(known.min()), "maximum": float(known.max()),
            }  # fmt: skip
        return labels


def are_fractions(labels: Sequence[str | None]) -> bool:
    """Return True if all labels are finite numbers and at least one of them is not an integer."""
    numbers = [parse_number(label) if label else None for label in labels]
    known = [number for number in numbers if number is not None and math.isfinite(number)]
    return len(known) == len(labels) and not all(number.is_integer() for number in known)


def divided(
    sources: dict[str, Objects],
    fractions: dict[str, float],
    seed: int,
    *,
    is_regression: bool,
    split_by: Callable[[Objects, Sequence[float]], Sequence[Sequence[int]]] | None = None,
) -> Data:
    """Split the parts without their own data from the main ones, and encode all labels.

    Args:
        sources: The main objects as ``"all"``, and those of ``"valid"`` and ``"test"``.
        fractions: Of validation and test.
        seed: Determines the split.
        is_regression: True if labels are numbers.
        split_by: From objects and the fractions of all parts to the positions in each part; by
            default the split is random, and classes keep their proportions.

    Raises:
        DataError: A label cannot be used, or there are too few objects.
    """
    main = sources["all"]
    classes = [] if is_regression else find_classes(main)
    encoded = {name: encode_labels(one, classes) for name, one in sources.items()}
    own = {name: share for name, share in fractions.items() if name not in sources}
    if split_by and own:
        try:
            division = split_by(main, (1 - sum(own.values()), *own.values()))
        except DataError as error:
            raise DataError(str(error), file=main.source) from None
    else:
        division = _positions(main, encoded["all"], own, seed, is_regression)
    of_part = dict(zip(("train", *own), division, strict=True))
    parts, values = {}, {}
    for name in PARTS:
        source = "all" if name in of_part else name
        positions = of_part.get(name, range(len(sources[source])))
        parts[name] = sources[source].subset(positions)
        values[name] = encoded[source][list(positions)]
    target = find_target(main, values["train"], classes)
    return Data(target, parts, values, list(sources.items()))


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
