"""Objects as a task reads them, their encoded labels, and their division into parts."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from representer.checks import is_missing, measured, parse_number, written_number
from representer.data.splits import PARTS, TRAINED, Fold, Splits, as_hex
from representer.data.tables import MISSING, Dropped, Grid, LabelMap, LeftOut
from representer.data.tables.files import listing, open_regular
from representer.data.text.words import Stored, most, take
from representer.errors import ArgumentError, DataError, plural, say, unit_of
from representer.estimators.halves import CALIBRATION
from representer.estimators.label_sets import LabelSets, joined_labels
from representer.estimators.results import result_columns
from representer.estimators.targets import Classes, ClassTable, Numbers, Target, splits_of
from representer.report.page import Column

_MOST_MEASURED = 20  # classes that are named like 5 mg
_ROW = re.compile(r"\bX\[(\d+)\]")  # of an object, as estimators name it
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+")  # may be 1250 or 1.250


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
        has_lines: False if messages cannot name lines, as of arrays.
        is_numbered_by_line: True if users find an object by its line, not by its row.
        rows: Row of each object in its file, from 1.
        names: The name of each object, if they have names.
        digests: Numbers by which objects are equal, once they are known.
        groups: What each object belongs to, such as a patient, if a column says so.
        has_label_sets: True if an object has any number of the labels `targets`; `labels` are then
            tuples of those that it has.
        are_indicators: True if a column of 0 and 1 says so for each label.
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
    has_lines: bool = True
    is_numbered_by_line: bool = False
    rows: Sequence[int] = ()
    names: Sequence[str] = ()
    digests: Any = ()
    groups: Sequence[str] = ()
    has_label_sets: bool = False
    are_indicators: bool = False

    @classmethod
    def of_file(cls, path: str | Path, objects: Sequence[Any], file: Any, **others: Any) -> Self:
        """Return objects with the labels, lines, names, notes and table of a file as read."""
        names = "labels", "lines", "names", "notes", "table", "label_column"
        values = {name: getattr(file, name) for name in names}
        return cls(str(path), str(path), objects, files=(Path(path),), **values, **others)

    def __post_init__(self) -> None:
        if not len(self.rows):
            object.__setattr__(self, "rows", range(1, len(self.objects) + 1))

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def columns(self) -> list[tuple[str | None, Sequence[str | None]]]:
        """The column and the labels of each target; any number of labels count as one text."""
        if self.has_label_sets:
            return [(self.label_column, [joined_labels(names) for names in self.labels])]
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
        return unit_of(self.source) if self.is_numbered_by_line else "row"

    def named(self) -> AbstractContextManager[None]:
        """Name the file, and lines or rows of it, in messages about the objects; see `naming`."""
        unit = "" if self.has_lines else "row"
        return naming(self.source, self.rows if unit else self.lines, unit)

    def subset(self, positions: Sequence[int]) -> Objects:
        """Return the objects at these positions."""
        optional = [name for name in ("names", "digests", "groups") if len(getattr(self, name))]
        chosen = {
            name: take(getattr(self, name), positions)
            for name in ("objects", "labels", "lines", "rows", *optional)
        }
        return replace(self, **chosen)

    def in_memory(self) -> Objects:
        """Return the objects with everything in memory."""
        if not isinstance(self.objects, Stored):
            return self
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in ("lines", "rows")}
        return replace(self, objects=[*self.objects], **numbers)

    def usable(self, reason: Callable[[Any], str], noun: str = "object", fix: str = "") -> Objects:
        """Return the objects for which there is no reason against them; the others are dropped.

        Raises:
            DataError: There are none.
        """
        kept = self.without(reason)
        if not len(kept):
            dropped = LeftOut(kept.dropped)
            raise none_usable(len(self), dropped, noun, self.source, self.column, fix)
        return kept

    def without(self, reason: Callable[[Any], str]) -> Objects:
        """Return the objects for which there is no reason against them, maybe none."""
        return self._without([reason(each) for each in self.objects])

    def in_groups(self) -> Objects:
        """Return the objects without those whose cell of the group is empty."""
        return self._without(["" if group else "empty group" for group in self.groups])

    def with_numbers(self) -> Objects:
        """Return the objects whose one label is no word for a missing number."""
        if self.targets:
            return self
        reasons = [f"missing label '{label}'" if is_missing(label) else "" for label in self.labels]
        return self._without(reasons)

    def _without(self, reasons: Sequence[str]) -> Objects:
        rows = zip(self.lines, reasons, strict=True)
        without = [Dropped(int(line), why) for line, why in rows if why]
        if not without:
            return self
        dropped = sorted([*self.dropped, *without], key=lambda row: row.line)
        kept = self.subset([i for i, why in enumerate(reasons) if not why])
        return replace(kept, dropped=dropped)

    def splits(self, labels: Any = None) -> Splits:
        """Return the rows of the objects, to be divided by their classes, if there are any."""
        groups = self.groups if len(self.groups) else None
        return Splits(len(self), labels, groups, self.digests)

    def say_notes(self) -> None:
        """Print the remarks, and the rows that were left out, on stderr."""
        for _ in with_notes([self]):
            pass

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
            "unit": unit_of(self.source),
            "kept": len(self),
            "dropped": [
                {"reason": reason, "count": len(numbers), "lines": numbers[:5]}
                for reason, numbers in lines.items()
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


def with_notes(blocks: Iterable[Objects], words: str = "left out") -> Iterator[Objects]:
    """Yield blocks; print their remarks and the rows left out of each file on stderr."""
    source, dropped = "", LeftOut()

    def say_left_out() -> None:
        if dropped.total:
            shown = str(dropped).replace("(line", f"({unit_of(source)}")
            say(f"{source}: {shown}".replace("left out", words, 1))

    for block in blocks:
        if block.source != source:
            say_left_out()
            source, dropped = block.source, LeftOut()
        for note in filter(None, block.notes):
            say(f"{source}: {note}")
        dropped.add(block.dropped)
        yield block
    say_left_out()


def none_usable(
    count: int, dropped: LeftOut, noun: str, source: str, column: str | None, fix: str = ""
) -> DataError:
    """Return the error of objects of which none can be used."""
    reasons = ", ".join(sorted(dropped.counts))
    problem = f"none of the {count} {plural(noun)} can be used ({reasons})"
    return DataError(problem, file=source, column=column, fix=fix)


def shown_cell(value: object) -> str:
    """Return the text of an input cell in CSV."""
    if isinstance(value, str):
        return value
    if value is None or value is MISSING:
        return ""
    is_json = isinstance(value, (bool, int, float, list, dict))
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)


def strings_of(strings: Sequence[str], noun: str, reading: dict[str, Any]) -> Objects:
    """Return strings of the command line as the rows of a table with one column."""
    lines = [*range(1, len(strings) + 1)]
    table = Grid([noun], [[string] for string in strings], lines, [], True, False, [])
    return Objects("--input", "--input", strings, [None] * len(strings), lines, table=table)


def find_classes(main: Objects) -> list[list[str]]:
    """Return the names of the classes of each target, sorted."""
    classes = []
    if main.has_label_sets:
        location: Any = {"file": main.labels_file, "column": main.label_column}
        if len(main.targets) < 2:
            fix = "Leave out --multilabel for one label an object, or give its separator."
            raise DataError(
                f"there are {len(main.targets)} labels; at least 2", **location, fix=fix
            )
        counts = Counter(label for names in main.labels for label in names)
        for label in main.targets:
            if counts[label] in (0, len(main)):
                share = "all" if counts[label] else "none"
                problem = f"{share} of the {len(main)} objects have the label {label!r:.60}"
                raise DataError(problem, **location, fix="Leave this label out.")
        return classes
    for column, labels in main.columns:
        names = [label for label in labels if label]
        if len(set(names)) < 2:
            problem = (
                f"all {len(names)} labels are {names[0]!r:.60}" if names else "there are no labels"
            )
            fix = "A classifier needs at least two classes; are these the right labels?"
            raise DataError(problem, file=main.labels_file, column=column, fix=fix)
        numbers = [label for label in names if measured(label) or parse_number(label) is not None]
        units = [label for label in numbers if parse_number(label) is None]
        if len(set(units)) > _MOST_MEASURED and 2 * len(units) > len(names):
            problem = f"the labels are numbers with a unit or sign, such as {units[0]!r}"
            fix = "To predict numbers, write them alone and with a decimal point, such as 1250.5."
            raise DataError(problem, file=main.labels_file, column=column, fix=fix)
        if len(set(numbers)) > _MOST_MEASURED and 2 * len(numbers) > len(names):
            for label in filter(_is_bound, numbers):
                raise _bound(label, {"file": main.labels_file, "column": column})
        classes.append(list(LabelMap.build(names).names))
    return classes


def encode_labels(source: Objects, classes: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Return the number of each class, or without classes the numbers themselves.

    They are ``(N,)`` of one target, ``(N, K)`` of several, NaN where unknown.

    Raises:
        DataError: A label is not one of the classes or not a finite number; with file and line.
    """
    if source.has_label_sets:
        return _indicators(source)
    columns = source.columns
    encoded = [
        _encoded(source, column, labels, names)
        for (column, labels), names in zip(columns, classes or [()] * len(columns), strict=True)
    ]
    return encoded[0] if len(encoded) == 1 else np.stack(encoded, axis=1)


def _encoded(
    source: Objects, column: str | None, labels: Sequence[str | None], names: Sequence[str]
) -> NDArray[Any]:
    values: list[float] = []
    commas = [label for label in labels if label and "," in label]
    is_clear = not commas or not all(map(_THOUSANDS.fullmatch, commas))
    is_optional = len(source.targets) > 1
    classes = LabelMap(tuple(names)) if names else None
    for label, line in zip(labels, source.lines, strict=True):
        position = line if source.has_lines else None
        location: Any = {"file": source.labels_file, "line": position, "column": column}
        if is_optional and not label:
            values.append(math.nan)
            continue
        if classes:
            values.append(classes.encode(label or "", **location))
            continue
        number = (written_number if is_clear else parse_number)(label or "")
        if number is None and _is_bound(label or ""):
            raise _bound(label or "", location)
        if number is None or not math.isfinite(number):
            problem = f"the label is {label!r:.60}; expected a finite number"
            fix = "Write the number alone, with a decimal point, such as 1250.5."
            raise DataError(problem, **location, fix=fix)
        values.append(number)
    return np.array(values, dtype=np.int64 if names and not is_optional else np.float64)


def _indicators(source: Objects) -> NDArray[np.float64]:
    """Return 1 for each label of an object and 0 for the others ``(N, K)``."""
    names = {*source.targets}
    for labels, line in zip(source.labels, source.lines, strict=True):
        for label in (label for label in labels if label not in names):
            location: Any = {"file": source.labels_file, "line": line if source.has_lines else None}
            problem = f"label {label!r:.60} is not one of {listing(source.targets)}"
            raise DataError(problem, **location, column=source.label_column)
    return LabelSets(tuple(source.targets), is_table=False).encode(source.labels)


def _is_bound(label: str) -> bool:
    return label.strip()[:1] in ("<", ">", "≤", "≥") and bool(measured(label.strip()))


def _bound(label: str, place: dict[str, Any]) -> DataError:
    fix = "Leave such rows out, or write a number instead, such as the limit itself."
    problem = f"the label {label!r:.60} is a bound and no number (a censored value)"
    return DataError(problem, **place, fix=fix)


def find_target(main: Objects, train: NDArray[Any], classes: Sequence[Sequence[str]]) -> Target:
    """Return what is predicted."""
    if main.has_label_sets:
        return LabelSets(tuple(main.targets), main.are_indicators)
    table = train.reshape(len(train), -1)
    for k, (column, _) in enumerate(main.columns):
        location: Any = {"file": main.labels_file, "column": column}
        values = table[~np.isnan(table[:, k]), k]
        if classes and len(set(values.tolist())) < 2:
            fix = "Add examples of the other classes."
            raise DataError("only one class is left to train on", **location, fix=fix)
        if not classes:
            try:
                Numbers.find(values)
            except DataError as error:
                problem = str(error).replace("y has", "the training part has")
                raise DataError(problem, **location) from None
    if not classes:
        return Numbers.find(train)
    columns = tuple(Classes(tuple(names)) for names in classes)
    return columns[0] if len(columns) == 1 else ClassTable(columns)


# Objects with labels, split into parts, for a task that trains an estimator.

# From objects and the fractions of all parts to the positions in each part.
Split = Callable[[Objects, Sequence[float]], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Data:
    """The data of a run."""

    target: Target  # the classes, or the standardized numbers
    parts: dict[str, Objects]  # training, validation and test objects, by name
    # their encoded labels: numbers of classes, or numbers, ``(N,)`` or ``(N, K)``
    values: dict[str, NDArray[Any]]
    sources: list[tuple[str, Objects]]  # each file or folder that was read, with its role
    inputs: Any = None  # how objects become batches, learned from the training objects
    # the objects of each part as the network's inputs
    encoded: dict[str, Sequence[Any]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # on the objects, for the report
    # parameters of the estimator that were read from files
    resources: dict[str, Any] = field(default_factory=dict)
    groups: Any = None  # of the test objects, by which coverage is told and which intervals count
    fold: Fold | None = None  # that of this training; None if objects are split, not groups of them
    folds: Sequence[Fold] = ()  # those of the run, or that of this training
    # the group of each object of a part, if there are groups
    groups_of: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seed: int | None = None  # of weights and order; None for that of the options

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
        """Return the folds, or the rows or lines of each part from 1, as in splits.json.

        With them are the digests of the objects that were trained on, see `as_hex`.
        """
        digests = {objects.source: objects.digest for _, objects in self.sources}
        if self.folds:
            return {"sha256": digests, "folds": [asdict(fold) for fold in self.folds]}
        parts = {
            name: {"source": objects.source, f"{objects.place}s": _numbers(objects)}
            for name, objects in self.parts.items()
        }
        used = [objects.digests for name, objects in self.parts.items() if name != "test"]
        return {"sha256": digests, **parts, TRAINED: as_hex(np.concatenate(used))}

    def skipped(self) -> list[tuple[str, str, str]]:
        """Return skipped.csv: the rows that were left out, below a header if there are any."""
        rows = [(o.source, str(r.line), r.reason) for _, o in self.sources for r in o.dropped]
        return [("file", "line", "reason"), *rows] if rows else []

    def described(self, facts: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return counts, sources and facts, also those given, for the report."""
        roles = {"all": "training, and parts without their own data"}
        return {
            "sources": [objects.described(roles.get(name, name)) for name, objects in self.sources],
            **{name: len(objects) for name, objects in self.parts.items()},
            "labels": self._labels(),
            "facts": {**self.facts, **(facts or {})},
        }

    def _labels(self) -> dict[str, dict[str, Any]]:
        labels: dict[str, dict[str, Any]] = {}
        for column in self.columns("train"):
            values = column.truth[column.known()]
            counts = Counter(values.tolist())
            labels[column.name] = {
                name: counts[number] for number, name in enumerate(column.classes)
            } or {
                "mean": float(values.mean()), "standard deviation": float(values.std()),
                "minimum": float(values.min()), "maximum": float(values.max()),
            }  # fmt: skip
        return labels


def are_fractions(labels: Sequence[str | None]) -> bool:
    """Return True if all labels are finite numbers and at least one of them is not an integer.

    Those with a decimal comma are numbers, too; `encode_labels` refuses them. Words for a missing
    number do not count.
    """
    present = [label for label in {*labels} if not is_missing(label)]  # classes occur many times
    numbers = [written_number(label) if label else None for label in present]
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    return len(finite) == len(present) and not all(number.is_integer() for number in finite)


def divided(
    sources: dict[str, Objects], fractions: dict[str, float], seed: int, *, is_regression: bool,
    split_by: Split | None = None,
) -> Data:  # fmt: skip
    """Split the parts without their own data from the main ones, and encode all labels.

    ``sources`` are the main objects as ``"all"``, and those of ``"valid"`` and ``"test"``. Without
    ``split_by``, which returns the positions in each part, the split is random, and classes keep
    their proportions.
    """
    main = sources["all"]
    sources = {name: replace(objects, targets=main.targets) for name, objects in sources.items()}
    classes = [] if is_regression else find_classes(main)
    encoded = {name: encode_labels(objects, classes) for name, objects in sources.items()}
    largest = most(main.objects) / len(main) if isinstance(main.objects, Stored) else 1.0
    drawn = {k: min(share, largest) for k, share in fractions.items() if k not in sources}
    if split_by and drawn:
        with naming(main.source):
            division = split_by(main, (1 - sum(drawn.values()), *drawn.values()))
    else:
        division = _positions(main, encoded["all"], drawn, seed, is_regression)
    of_part = dict(zip(("train", *drawn), division, strict=True))
    parts, values = {}, {}
    for name in PARTS:
        source = "all" if name in of_part else name
        positions = of_part.get(name, range(len(sources[source])))
        parts[name] = sources[source].subset(positions)
        if name != "train":
            parts[name] = parts[name].in_memory()
        values[name] = encoded[source][list(positions)]
    target = find_target(main, values["train"], classes)
    data = Data(target, parts, values, list(sources.items()))
    return replace(data, resources={"multilabel": True}) if main.has_label_sets else data


def equal_objects(
    sources: Mapping[str, Objects], nouns: str, *, has_classes: bool = False
) -> dict[str, str]:
    """Return how many objects are copies, and how many of other files are in the main one, too.

    With classes, these are also the copies of which another one has another label.
    """
    main, parts = sources["all"], {}
    if count := len(main.digests) - len(np.unique(main.digests)):
        about = f"{count:,} of {len(main):,} {nouns} equal others"
        parts["copies"] = about + ", and stay with them in a split" * (not main.groups)
        if has_classes and (rows := _contradictory(main)):
            shown = f"{main.place} {main.numbers[rows[0]]}"
            about = f"{len(rows):,} {nouns} have equals with another label, such as {shown}"
            parts["contradictions"] = about + "; no model is right about all of them"
    if main.groups:
        about = f"the {nouns} belong to {len({*main.groups}):,} groups, each in one part of a split"
        parts["groups"] = about
    for name in ("valid", "test"):
        source = sources.get(name)
        if source and (count := int(np.isin(source.digests, main.digests).sum())):
            about = f"{count:,} {nouns} of the {name} file are training {nouns}, too"
            parts[f"{name} {nouns} that are training {nouns}"] = about
        if source and (common := {*source.groups} & {*main.groups}):
            about = f"{len(common):,} groups of the {name} file have training {nouns}, too"
            parts[f"{name} groups that are training groups"] = about
    return parts


def _contradictory(main: Objects) -> list[int]:
    """Return the positions of the objects of which equal ones have another label."""
    _, copies = np.unique(main.digests, return_inverse=True)
    are_different = np.zeros(len(main), bool)
    for _, labels in main.columns:
        codes: dict[str | None, int] = {}
        numbers = np.array([codes.setdefault(label or None, len(codes)) for label in labels])
        is_labeled = numbers != codes.get(None, -1)
        pairs = np.unique((copies * len(codes) + numbers)[is_labeled])  # of object and label
        counts = np.bincount(pairs // len(codes), minlength=len(main))
        are_different |= is_labeled & (counts[copies] > 1)
    return np.flatnonzero(are_different).tolist()


def with_calibration(data: Data, level: float, seed: int, groups: Any = None) -> Data:
    """Return the data with a part of the training objects as the part ``"calibration"``.

    Copies count once; groups of the training objects, if there are any, are drawn as a whole.
    """
    if isinstance(data.target, LabelSets):
        raise ArgumentError("conformal", level, "nothing, since there are several labels an object")
    objects, values = data.parts["train"], data.values["train"]
    splits = splits_of(data.target, values, groups, objects.digests)
    with naming(objects.labels_file):
        division = splits.calibration(seed, level)
    named = {name: list(rows) for name, rows in zip(("train", CALIBRATION), division, strict=True)}
    return replace(
        data,
        parts=data.parts | {name: objects.subset(rows) for name, rows in named.items()},
        values=data.values | {name: values[rows] for name, rows in named.items()},
    )


def _numbers(part: Objects) -> list[int] | str:
    """Return the numbers of objects; those that are not in memory are all but the other parts'."""
    return "all others" if isinstance(part.objects, Stored) else list(part.numbers)


def _require_examples(main: Objects) -> None:
    column, labels = main.columns[0]
    if not main.targets and len(set(labels)) == len(labels):
        shown = listing([label or "" for label in labels], 3)
        problem = f"all labels differ: {shown}; expected classes of several examples"
        fix = (
            "Is this the column of the labels? Numbers to predict are like 1250.5, without a unit."
        )
        raise DataError(problem, file=main.labels_file, column=column, fix=fix)


def _positions(
    main: Objects, values: NDArray[Any], fractions: dict[str, float], seed: int,
    is_regression: bool,
) -> Sequence[Sequence[int]]:  # fmt: skip
    """Return the positions of the training part and of each other part."""
    shares = (1 - sum(fractions.values()), *fractions.values())
    if not fractions:
        return [range(len(main))]
    if not is_regression:
        _require_examples(main)
    splits = main.splits(None if is_regression or values.ndim > 1 else values)
    with naming(main.labels_file):
        return splits.parts(shares, seed)


@contextmanager
def naming(file: str, lines: Sequence[int] = (), unit: str = "") -> Iterator[None]:
    """Add the file to messages about its content, and the lines of the rows that they name."""

    def line(found: re.Match[str]) -> str:
        row = int(found[1])
        return f"{unit or unit_of(file)} {lines[row]}" if row < len(lines) else found[0]

    raised: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as raised:
            yield
    except DataError as error:
        raise DataError(_ROW.sub(line, str(error)), file=file) from None
    finally:
        for each in raised:
            text = f"{file}: {_ROW.sub(line, str(each.message))}"
            warnings.warn(text, each.category, stacklevel=3)


# Objects by the columns beside them, to choose some of a pool.

COMPARISONS: dict[str, Callable[..., Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def numbers_in(objects: Objects, column: str) -> NDArray[np.float64]:
    """Return the numbers of a column of the table ``(N,)``."""
    if objects.table is None or column not in objects.table.columns:
        names = ", ".join(objects.table.columns) if objects.table else "none"
        problem = f"there is no column {column!r}; the columns are {names}"
        raise DataError(problem, file=objects.source)
    position = objects.table.columns.index(column)
    cells = {line: row[position] for line, row in
             zip(objects.table.lines, objects.table.rows, strict=True)}  # fmt: skip
    numbers = []
    for line in objects.lines:
        try:
            numbers.append(float(str(cells[line])))
        except ValueError:
            problem = f"{shown_cell(cells[line])!r} is not a number"
            raise DataError(problem, file=objects.source, line=line, column=column) from None
    return np.array(numbers)


def allowed_by(objects: Objects, conditions: Sequence[str]) -> NDArray[np.bool_]:
    """Return which objects meet every condition ``(N,)``, such as ``weight<=500``.

    Raises:
        DataError: There is no such column, or a cell is no number.
    """
    result = np.ones(len(objects), bool)
    for condition in conditions:
        parts = re.fullmatch(r"(.+?)\s*(<=|>=|==|!=|<|>)\s*([^<>=!]+)", condition.strip())
        try:
            column, sign, limit = parts.groups() if parts else ("", "", "")
            bound = float(limit)
        except ValueError:
            raise ArgumentError("where", condition, "a condition such as 'weight<=500'") from None
        result &= COMPARISONS[sign](numbers_in(objects, column), bound)
    return result
