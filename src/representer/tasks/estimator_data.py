"""Objects with labels, split into parts, for a task that trains an estimator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.stored import Stored, most
from representer.data.tables.suggest import listing
from representer.errors import DataError
from representer.estimators.conformal import calibration_rows, repeated
from representer.estimators.division import random_parts
from representer.estimators.joint_fitting import CALIBRATION
from representer.estimators.results import result_columns
from representer.estimators.targets import Numbers, Target
from representer.numbers import is_missing, written_number
from representer.report.results import Column
from representer.tasks.estimator_objects import Objects, encode_labels, find_classes, find_target

PARTS = ("train", "valid", "test")
TRAINED = "trained_on"  # digests in splits.json

# From objects and the fractions of all parts to the positions in each part.
Split = Callable[[Objects, Sequence[float]], Sequence[Sequence[int]]]


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

    def labeled(self, part: str) -> tuple[Sequence[Any], NDArray[Any]]:
        """Return the objects of a part and their values, numbers as ``(N, K)``."""
        values = self.values[part]
        values = values.reshape(len(values), -1) if self.is_regression else values
        return self.parts[part].objects, values

    def columns(self, part: str) -> list[Column]:
        """Return each target of a part."""
        return result_columns(self.targets, self.values[part], self.target)

    def digests(self, part: str) -> NDArray[Any]:
        """Return numbers by which the objects of a part are equal; of a demo, all differ."""
        objects = self.parts[part]
        return objects.digests if len(objects.digests) else np.arange(len(objects))

    def distinct(self, part: str) -> NDArray[np.intp]:
        """Return the positions of the objects of a part without the copies of others in it."""
        return np.sort(np.unique(self.digests(part), return_index=True)[1])

    def splits(self) -> dict[str, Any]:
        """Return the rows or lines of each part, counted from 1, as in splits.json.

        With them are the digests of the objects that were trained on, unless they are large.
        """
        parts = {
            name: {"source": part.source, f"{part.place}s": _numbers(part)}
            for name, part in self.parts.items()
        }
        used = [part.digests for name, part in self.parts.items() if name != "test"]
        is_listed = not isinstance(self.parts["train"].objects, Stored)
        trained = np.concatenate(used).tobytes().hex() if is_listed else ""
        digests = {one.source: one.digest for _, one in self.sources}
        return {"sha256": digests, **parts, TRAINED: trained}

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
    """Return True if all labels are finite numbers and at least one of them is not an integer.

    Those with a decimal comma are numbers, too; `encode_labels` refuses them. Words for a missing
    number do not count.
    """
    given = [label for label in labels if not is_missing(label)]
    numbers = [written_number(label) if label else None for label in given]
    known = [number for number in numbers if number is not None and math.isfinite(number)]
    return len(known) == len(given) and not all(number.is_integer() for number in known)


def divided(
    sources: dict[str, Objects],
    fractions: dict[str, float],
    seed: int,
    *,
    is_regression: bool,
    split_by: Split | None = None,
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
    largest = most(main.objects) / len(main) if isinstance(main.objects, Stored) else 1.0
    own = {k: min(share, largest) for k, share in fractions.items() if k not in sources}
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
        if name != "train":
            parts[name] = parts[name].in_memory()
        values[name] = encoded[source][list(positions)]
    target = find_target(main, values["train"], classes)
    return Data(target, parts, values, list(sources.items()))


def equal_objects(sources: Mapping[str, Objects], nouns: str) -> dict[str, str]:
    """Return how many objects are copies, and how many of other files are in the main one, too."""
    main, found = sources["all"], {}
    if count := len(main.digests) - len(np.unique(main.digests)):
        about = f"{count:,} of {len(main):,} {nouns} equal others, and stay with them in a split"
        found["copies"] = about
    for name in ("valid", "test"):
        one = sources.get(name)
        if one and (count := int(np.isin(one.digests, main.digests).sum())):
            about = f"{count:,} {nouns} of the {name} file are training {nouns}, too"
            found[f"{name} {nouns} that are training {nouns}"] = about
    return found


def with_calibration(data: Data, level: float, seed: int, groups: Any = None) -> Data:
    """Return the data with a part of the training objects as the part ``"calibration"``.

    Copies count once; groups of the training objects, if there are any, are drawn as a whole.
    """
    objects, values = data.parts["train"], data.values["train"]
    alike = groups if groups is not None else repeated(objects.digests, level)
    try:
        division = calibration_rows(data.target, values, alike, seed, level)
    except DataError as error:
        raise DataError(str(error), file=objects.labels_file) from None
    named = {part: list(rows) for part, rows in zip(("train", CALIBRATION), division, strict=True)}
    return replace(
        data,
        parts=data.parts | {name: objects.subset(rows) for name, rows in named.items()},
        values=data.values | {name: values[rows] for name, rows in named.items()},
    )


def _numbers(part: Objects) -> list[int] | str:
    """Return the numbers of objects; those that are not in memory are all but the other parts'."""
    return "all others" if isinstance(part.objects, Stored) else list(part.numbers)


def _names(values: NDArray[Any]) -> list[str]:
    """Return values as text; equal ones share it."""
    names = {value: str(value) for value in np.unique(values).tolist()}
    return [names[value] for value in values.tolist()]


def _require_examples(main: Objects) -> None:
    column, labels = main.columns[0]
    if len(main.columns) == 1 and len(set(labels)) == len(labels):
        shown = listing([label or "" for label in labels], 3)
        problem = f"all labels differ: {shown}; expected classes of several examples"
        fix = (
            "Is this the column of the labels? Numbers to predict are like 1250.5, without a unit."
        )
        raise DataError(problem, file=main.labels_file, column=column, fix=fix)


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
        _require_examples(main)
    labels = None if is_regression else _names(values)
    try:
        return random_parts(labels, len(main), shares, seed, main.digests)
    except DataError as error:
        raise DataError(str(error), file=main.labels_file) from None
