"""Class names and their indices, and the stratified split of rows into parts."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from representer.checks import is_missing
from representer.data.tables.files import did_you_mean, listing, unguard_formula
from representer.errors import ArgumentError, DataError


def alike(labels: Iterable[Any]) -> str:
    """Return a note on texts that differ in case or blanks alone; empty if there are none."""
    first: dict[str, str] = {}
    for label in labels:
        text = label if isinstance(label, str) else ""
        if (other := first.setdefault(text.strip().casefold(), text)) != text:
            return f"The classes {other!r} and {label!r} differ in case or blanks alone."
    return ""


def remarks(labels: Iterable[Any]) -> list[str]:
    """Return notes on classes: see `alike`, and those that are words for a missing value."""
    classes = dict.fromkeys(labels)
    words = [repr(c) for c in classes if isinstance(c, str) and c and is_missing(c)]
    note = f"{', '.join(words)}: taken as a class; leave the cell empty if the label is unknown"
    return [*filter(None, [alike(classes)]), *([note] if words else [])]


@dataclass(frozen=True)
class LabelMap:
    """The names of the classes; the index of a class is its position.

    Args:
        names: The distinct names.

    Raises:
        ArgumentError: If there are no names, or one is empty or a duplicate.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check for empty and duplicate names."""
        if not self.names or "" in self.names or len(set(self.names)) < len(self.names):
            raise ArgumentError("names", self.names, "one or more distinct names, none empty")

    @classmethod
    def build(cls, labels: Iterable[str]) -> LabelMap:
        """Collect the classes of labels, in numerical order if all are integers."""
        names = sorted(set(labels))
        if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
            names.sort(key=int)
        return cls(tuple(names))

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.names)

    def encode(
        self, label: str, *, file: str | Path | None = None, line: int | None = None,
        column: str | None = None,
    ) -> int:  # fmt: skip
        """Return the index of a class.

        Args:
            label: The class name, possibly with the prefix of :func:`guard_formula`.
            file: The file of the label, for messages.
            line: The line of the label.
            column: The column of the label.

        Raises:
            DataError: If the class is unknown.
        """
        number = self._numbers.get(label, self._numbers.get(unguard_formula(label)))
        if number is None:
            raise DataError(
                f"the label {label!r} is not one of the {len(self)} classes: {listing(self.names)}",
                file=file, line=line, column=column,
                fix=f"{did_you_mean(label, self.names)}Correct the label or remove the row.",
            )  # fmt: skip
        return number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


# Stratified splits: the classes have similar proportions in all parts.


@dataclass(frozen=True)
class Split:
    """The parts of a data set. Iterating yields the parts: ``train, valid = split(...)``."""

    parts: tuple[list[int], ...]  # the positions in each part, ascending
    notes: tuple[str, ...]  # one sentence for each class that is too small to be in every part

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the parts."""
        return iter(self.parts)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.parts)


def split(labels: Sequence[str], fractions: Sequence[float], seed: int, digests: Any = ()) -> Split:
    """Split documents into parts; the first is for training and has all classes.

    The documents are assigned class by class, each to the part with the largest deficit so far. So
    each part has its fraction of all documents and of each class to within two documents, and no
    part is empty because all classes are small. The first part gets at least one document of each
    class. Equal documents stay together, with the rarest of their classes.

    Args:
        labels: The class of each document.
        fractions: The fraction of each part, for example ``(0.8, 0.1, 0.1)``; they sum to 1.
        seed: Determines the assignment.
        digests: Numbers by which documents are equal ``(N,)``; none if all of them differ.

    Raises:
        ArgumentError: If the fractions are not positive or do not sum to 1.
        DataError: If a part would be empty.
    """
    if not fractions or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-9):
        raise ArgumentError("fractions", tuple(fractions), "positive numbers that sum to 1")
    rng = random.Random(f"split/{seed}")
    copies: dict[int, list[int]] = {}
    _, firsts, inverse = np.unique(digests, return_index=True, return_inverse=True)
    for position in np.flatnonzero(firsts[inverse] != np.arange(len(inverse))).tolist():
        first = int(firsts[inverse[position]])
        copies.setdefault(first, [first]).append(position)
    together = {i for positions in copies.values() for i in positions}
    class_sizes = Counter(labels)
    members: dict[str, list[int]] = {}
    for position, label in enumerate(labels):
        if position in copies:
            names = {labels[i] for i in copies[position]}
            label = min((class_sizes[name], name) for name in names)[1]
        if position in copies or position not in together:
            members.setdefault(label, []).append(position)
    parts: tuple[list[int], ...] = tuple([] for _ in fractions)
    notes = []
    counts = [0] * len(fractions)
    for label in sorted(members):
        positions = members[label]
        rng.shuffle(positions)
        shares = _deal(positions, fractions, counts, copies)
        for rows, share in zip(parts, shares, strict=True):
            rows.extend(share)
        if not all(shares):
            notes.append(_note(label, shares))
    if not all(parts):
        sizes = " + ".join(str(len(rows)) for rows in parts)
        raise DataError(
            f"{len(labels)} documents cannot be divided by {tuple(fractions)}: {sizes}",
            fix="Provide more documents or larger fractions.",
        )
    for rows in parts:
        rows.sort()
    return Split(parts, tuple(notes))


def _deal(
    positions: list[int], fractions: Sequence[float], counts: list[int],
    copies: Mapping[int, list[int]],
) -> list[list[int]]:  # fmt: skip
    """Split one class; ``counts`` are the documents of all classes in each part so far."""
    shares: list[list[int]] = [[] for _ in fractions]
    if len(positions) == 1:  # not counted, since many such classes would bias the split
        shares[0] = positions
    for position in positions if len(positions) > 1 else ():
        size = len(copies.get(position, [position]))
        total = sum(counts) + size
        neediest = max(range(len(counts)), key=lambda i: fractions[i] * total - counts[i])
        counts[neediest] += size
        shares[neediest].append(position)
    if not shares[0]:
        shares[0].append(max(shares, key=len).pop())
    return [[i for first in rows for i in copies.get(first, [first])] for rows in shares]


def _note(label: str, shares: list[list[int]]) -> str:
    count = sum(map(len, shares))
    empty = ", ".join(str(number) for number, share in enumerate(shares, 1) if not share)
    documents = "document, in training" if count == 1 else "documents"
    return f"Class {label!r} has {count} {documents}; none of it is in part {empty}."
