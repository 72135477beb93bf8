"""Splits: rows divided into parts by their classes, their groups, and the rows that they equal."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, DataError, say
from representer.machine import derive

FINAL = "final"  # the purpose of the one validation part of a training
_FOLDS = 5
# Calibration rows: a tenth, or so many rows, but not more than a part of all.
CALIBRATED, ENOUGH, MOST_CALIBRATED = 0.1, 100, 0.3
ALIKE = "so few objects differ that calibration rows equal others: the sets are too small"
FEW_DIFFER = "so few objects differ that equal ones are in several parts: figures are too good"

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Splits:
    """Rows, and what decides which of them may be in one part of a split.

    Args:
        count: Number of rows.
        labels: The class of each row, a number or a text; each part has their proportions. None if
            there are no classes, or several of a row.
        groups: What each row belongs to, such as a subject: no group is in two parts. None if rows
            are independent.
        digests: Numbers by which rows are equal: no row that equals one to train on is in another
            part. None of them if all rows differ.
        names: Of the classes, for messages.
        is_known: Which rows have a value to learn ``(N,)``; None if all have one.
    """

    count: int
    labels: Any = None
    groups: Any = None
    digests: Any = ()
    names: Sequence[Any] = ()
    is_known: NDArray[np.bool_] | None = None

    def parts(self, fractions: Sequence[float], seed: int) -> list[list[int]]:
        """Return the rows of random parts, the first one for training.

        Equal rows stay together, unless there are so few different ones that a part would be empty,
        with a notice; with groups, rows that equal one of the first part are left out.
        """
        if self.groups is None or not len(self.groups):
            return self._random(fractions, seed)
        _, codes = np.unique(self.groups, return_inverse=True)
        try:
            train, *others = split(self._texts(), fractions, seed, codes)
        except DataError:
            problem = f"{codes.max() + 1} groups cannot be divided by {tuple(fractions)}"
            fix = "Add groups, or give --valid and --test files."
            raise DataError(problem, fix=fix) from None
        return [train, *(self._without_copies(rows, train) for rows in others)]

    def held_out(self, fraction: float, seed: int) -> tuple[list[int], list[int]]:
        """Return the rows to train on and to validate on.

        As `parts` does, but the classes choose among groups, see `held_out_groups`; and of rows
        without groups, those without a value are in neither.
        """
        if self.groups is not None:
            train, valid = self._by_groups(fraction, seed)
            return train, self._without_copies(valid, train)
        if self.is_known is None:
            train, valid = self._random((1 - fraction, fraction), seed)
            return train, valid
        labeled = np.flatnonzero(self.is_known)
        if len(labeled) < 3:
            raise DataError(f"X has {len(labeled)} rows with a target; at least 3 are needed")
        digests = self.digests[labeled] if len(self.digests) else ()
        parts = Splits(len(labeled), digests=digests)._random((1 - fraction, fraction), seed)
        train, valid = (labeled[rows].tolist() for rows in parts)
        return train, valid

    def folds(self) -> list[tuple[Rows, Rows]]:
        """Return the rows to fit to and to test on, in up to five folds.

        No row is fitted to where an equal one is tested. There are no folds if one of them would
        leave a single class to fit to.
        """
        from sklearn.model_selection import (
            GroupKFold,
            KFold,
            StratifiedGroupKFold,
            StratifiedKFold,
        )  # fmt: skip

        is_class = self.labels is not None
        labels = self.labels if is_class else np.zeros(self.count, np.int64)
        counts = np.bincount(labels)
        count = min(_FOLDS, counts[counts > 0].min(initial=_FOLDS), self.count)
        if self.groups is not None:
            count = min(count, len(np.unique(self.groups)))
        if count < 2:
            return []
        if self.groups is not None:
            folds: Any = (StratifiedGroupKFold if is_class else GroupKFold)(count)
        else:
            folds = (
                StratifiedKFold(count) if is_class else KFold(count, shuffle=True, random_state=0)
            )
        pairs = list(folds.split(np.zeros(self.count), labels, self.groups))
        if len(self.digests):
            pairs = [(rows[~np.isin(self.digests[rows], self.digests[tested])], tested)
                     for rows, tested in pairs]  # fmt: skip
        least = 2 if is_class else 1
        is_usable = all(len(np.unique(labels[rows])) >= least and len(t) for rows, t in pairs)
        return pairs if is_usable else []

    def without_classes(self) -> Splits:
        """Return the same rows, whose classes decide nothing."""
        return replace(self, labels=None)

    def calibration(self, seed: int, level: float | None = None) -> tuple[list[int], list[int]]:
        """Return the rows to train on and the calibration rows.

        The rows are drawn at random from all, so that no class is too rare for them. With groups,
        these are drawn, each of them gives one random row, which is exchangeable with a row of a
        new group, and its other rows are left out. Rows that equal one to train on are not drawn;
        without groups, equal rows are one.
        """
        groups = self.groups
        if groups is None and level is not None:
            groups = self._copies(level)
        rng = np.random.default_rng(derive(seed, "conformal"))
        codes = np.arange(self.count)
        if groups is not None:
            codes = np.unique([str(group) for group in groups], return_inverse=True)[1]
        order = rng.permutation(self.count)
        order = drawn = order if self.is_known is None else order[self.is_known[order]]
        if groups is not None:
            order = rng.permutation(order[np.unique(codes[order], return_index=True)[1]])
        size = len(np.unique(codes))
        chosen = np.sort(order[: round(size * calibration_fraction(size))])
        if level is not None:
            rank_of(level, len(chosen), "rows" if groups is None else "groups")
        rest = np.flatnonzero(~np.isin(codes, codes[chosen]))
        if groups is not None and len(self.digests):
            is_fresh = ~np.isin(self.digests[drawn], self.digests[rest])
            drawn = drawn[np.isin(codes[drawn], codes[chosen]) & is_fresh]
            fresh = np.sort(drawn[np.unique(codes[drawn], return_index=True)[1]])
            if are_enough(len(fresh), level or 0.0):
                chosen = fresh
            else:
                say(ALIKE)
        if self.labels is not None and len(np.unique(self.labels[rest])) < 2:
            problem = "the rows that calibration leaves to train on are of one class"
            raise DataError(problem, fix="Add examples of the others.")
        return rest.tolist(), chosen.tolist()

    def held_out_groups(
        self, fraction: float, seed: int, purpose: str = FINAL, names: Sequence[str] | None = None
    ) -> set[str]:
        """Return the groups held out for validation, in proportion from each kind of group.

        Two groups are of one kind if they have the same classes. More than the fraction is held out
        where that alone has all classes. A group that alone has a class is held out only if there
        is no other. At least one of two or more groups is held out; other purposes have other
        choices, and ``names`` are the groups to choose from.
        """
        names = [*dict.fromkeys(self.groups)] if names is None else names
        kinds = self.groups_by_classes(seed, purpose, names)
        count = max(1, round(fraction * len(names)))
        keyed = [
            ((rank + 0.5) / len(of_kind), group)
            for of_kind in kinds.values()
            for rank, group in enumerate(of_kind)
        ]
        order = [group for _, group in sorted(keyed, key=lambda k: k[0])]
        classes = {group: {*labels} for labels, of_kind in kinds.items() for group in of_kind}
        holders = Counter(
            label for held in classes.values() for label in held
        )  # of those not chosen
        covered, chosen = set[int](), set[str]()
        for group in order:
            is_needed = len(chosen) < count or not classes[group] <= covered
            if is_needed and all(holders[label] > 1 for label in classes[group]):
                chosen.add(group)
                covered |= classes[group]
                holders.subtract(classes[group])
        return chosen or set(order[:1])

    def groups_by_classes(
        self, seed: int, purpose: str, names: Sequence[str]
    ) -> dict[tuple[int, ...], list[str]]:
        """Return groups in random order by the classes that they have; see `held_out_groups`."""
        rng = np.random.default_rng(derive(seed, "subjects", purpose))
        groups = np.asarray(self.groups)
        labels = np.zeros(self.count, np.int64) if self.labels is None else self.labels
        kinds: dict[tuple[int, ...], list[str]] = {}
        for group in rng.permutation(np.asarray(names, dtype=object)).tolist():
            classes = np.unique(labels[groups == group])
            kinds.setdefault(tuple(classes.tolist()), []).append(group)
        return kinds

    def largest_first(self, fractions: Sequence[float]) -> list[list[int]]:
        """Return parts of whole groups, the largest groups first.

        Each is assigned to the first part with enough capacity; that of the last is unlimited.
        Those of one size are ordered by digests of their names: by rows, the last part of a table
        that is sorted by its label would have one class.
        """

        def order(rows: list[int]) -> tuple[int, int, list[int]]:
            return -len(rows), digest(repr(self.groups[rows[0]]).encode()), rows

        limits = [fraction * self.count for fraction in fractions]
        parts: list[list[int]] = [[] for _ in limits]
        for group in sorted(self._members(), key=order):
            fits = (i for i, limit in enumerate(limits) if len(parts[i]) + len(group) <= limit)
            parts[next(fits, len(parts) - 1)] += group
        return parts

    def dealt(self, fractions: Sequence[float], seed: int) -> list[list[int]]:
        """Return parts of whole groups in random order, each to the part that lacks most so far."""
        groups = self._members()
        random.Random(f"split/{seed}").shuffle(groups)
        parts: list[list[int]] = [[] for _ in fractions]
        total = 0
        for group in groups:
            total += len(group)
            lack = [share * total - len(rows) for share, rows in zip(fractions, parts, strict=True)]
            parts[lack.index(max(lack))] += group
        return parts

    def _members(self) -> list[list[int]]:
        """Return the rows of each group, in the order of their first rows."""
        members: dict[Any, list[int]] = {}
        for row, group in enumerate(self.groups):
            members.setdefault(group, []).append(row)
        return list(members.values())

    def _texts(self) -> list[str]:
        return [""] * self.count if self.labels is None else [str(label) for label in self.labels]

    def _random(self, fractions: Sequence[float], seed: int) -> list[list[int]]:
        if len(np.unique(self.digests)) < len(self.digests):
            try:
                return list(split(self._texts(), fractions, seed, self.digests))
            except DataError:
                say(FEW_DIFFER)
        if self.labels is not None:
            return list(split(self._texts(), fractions, seed))
        order = np.random.default_rng(derive(seed, "split")).permutation(self.count)
        counts = [max(1, round(share * self.count)) for share in fractions[1:]]
        if sum(counts) > self.count - 2:
            problem = f"{self.count} rows cannot be divided into {len(fractions)} parts"
            raise DataError(problem, fix="Add data.")
        parts = np.split(order, np.cumsum(counts))
        return [sorted(rows.tolist()) for rows in (parts[-1], *parts[:-1])]

    def _by_groups(self, fraction: float, seed: int) -> tuple[list[int], list[int]]:
        groups = [str(group) for group in self.groups]
        if len({*groups}) < 2:
            raise DataError(f"groups has one group, {groups[0]!r}; validation needs another one")
        held_out = replace(self, groups=groups).held_out_groups(fraction, seed)
        train = [row for row, group in enumerate(groups) if group not in held_out]
        for number, name in enumerate(self.names):
            if (self.labels == number).any() and not (self.labels[train] == number).any():
                problem = f"all examples of the class {name!r} are in one group"
                raise DataError(problem, fix="Add groups with this class, or leave it out.")
        return train, [row for row, group in enumerate(groups) if group in held_out]

    def _without_copies(self, rows: list[int], others: list[int]) -> list[int]:
        """Return the rows that equal none of the others; all, with a notice, if no row is left."""
        digests = self.digests
        if not len(digests) or not (copies := np.isin(digests[rows], digests[others])).any():
            return rows
        say(
            "the objects of the held out groups equal others: figures are too good"
            if copies.all()
            else f"{copies.sum()} held out objects equal some of other groups, and are left out"
        )
        return rows if copies.all() else np.asarray(rows)[~copies].tolist()

    def _copies(self, level: float) -> NDArray[np.int64] | None:
        """Return digests as groups if some are equal, since copies must not be on both sides.

        If there are too few for the level, they are on both, with a notice.
        """
        if (count := len(np.unique(self.digests))) == len(self.digests):
            return None
        if are_enough(round(count * calibration_fraction(count)), level):
            return self.digests
        say(ALIKE)
        return None


def calibration_fraction(count: int) -> float:
    """Return the fraction of rows to set aside: a tenth, or 100 rows if at most three tenths."""
    return max(CALIBRATED, min(ENOUGH / count, MOST_CALIBRATED))


def are_enough(count: int, level: float) -> bool:
    """Return True if so many scores have a quantile of a level."""
    return count > 0 and count * (1 - level) >= level - 1e-9


def rank_of(level: float, count: int, noun: str = "rows") -> int:
    """Return the number of scores up to the quantile, or raise a `DataError` if there are fewer."""
    rank = math.ceil((count + 1) * level - 1e-9)  # 0.9 is not a binary fraction
    if rank > count:
        least = math.ceil(level / (1 - level) - 1e-9)
        problem = f"conformal={level:g} needs at least {least} calibration {noun}; there are"
        raise DataError(f"{problem} {count}", fix=f"Add {noun}, or lower the level.")
    return rank


# Folds that are named by their groups, such as the subjects of windows.

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Fold:
    """The groups of one training and its test.

    Attributes:
        name: Name of the fold; the group, if one group is left out.
        train: Training groups.
        valid: Groups for early stopping; none if the last epoch is used.
        test: Test groups; none for the final model.

    Raises:
        ArgumentError: If a group is in two parts, or there is no training group.
    """

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        sides: dict[str, str] = {}
        for side in PARTS:
            for group in getattr(self, side):
                if sides.setdefault(group, side) != side:
                    expected = f"a group in one part only, not in {sides[group]} and {side}"
                    raise ArgumentError("group", group, expected)
        if not self.train:
            raise ArgumentError("train", (), f"at least one group in fold {self.name!r}")

    def folder_name(self, number: int) -> str:
        """Return the name of the fold's folder: its number, and its name with safe characters."""
        return f"{number:03d}-{re.sub(r'[^A-Za-z0-9_-]+', '_', self.name)[:60]}"

    def parts(self, groups: NDArray[Any]) -> dict[str, NDArray[np.intp]]:
        """Return the positions of each part, from the group of each object ``(N,)``."""
        return {name: np.flatnonzero(np.isin(groups, getattr(self, name))) for name in PARTS}


# The stratified split: the classes have similar proportions in all parts.


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
            f"{len(labels)} rows cannot be divided by {tuple(fractions)}: {sizes}",
            fix="Provide more rows or larger fractions.",
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
    rows = "row, in training" if count == 1 else "rows"
    return f"Class {label!r} has {count} {rows}; none of it is in part {empty}."


# Equal objects, so that no copy of a training object is in another part of a split.

TRAINED = "trained_on"  # the key of digests in the file SPLITS of a run
SPLITS = "splits.json"
MOST = 2**20  # digests in a file, 16 MiB


def digest(content: bytes) -> int:
    """Return 64 bits of a hash."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), signed=True)


def as_hex(digests: NDArray[np.int64]) -> str:
    """Return different digests as text; of very many, the smallest, which are a random part."""
    return np.unique(digests)[:MOST].tobytes().hex()


def digest_of(one: Any) -> int:
    """Return the digest of a text, but for case and the width of spaces, or of an array."""
    if isinstance(one, str):
        return digest(" ".join(one.split()).casefold().encode("utf-8", "surrogatepass"))
    array = np.asarray(one)
    return digest(repr((array.shape, array.dtype)).encode() + array.tobytes())


def digest_of_graph(count: int, edge_index: NDArray[np.int64], nodes: Any, edges: Any) -> int:
    """Return the digest of a graph, the same for each order of its nodes and edges.

    A node's color is refined by the colors of its incoming edges and their sources, as in the
    Weisfeiler-Lehman test, so that graphs that no such kernel can tell apart are equal. Nodes and
    edges have a label or a row of numbers each, or None.
    """
    source, target = edge_index
    colors, of_edges = _colors(nodes, count), _colors(edges, len(source))
    for _ in range(1 + count.bit_length()):
        received = np.zeros(count, np.uint64)
        np.add.at(received, target, _mixed(colors[source] ^ of_edges))
        colors = _mixed(_mixed(colors) + received)
    return digest(np.sort(colors).tobytes())


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return pseudorandom numbers for numbers: the finalizer of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _colors(values: Any, count: int) -> NDArray[np.uint64]:
    if values is None:
        return np.ones(count, np.uint64)
    texts = [row.tobytes() if isinstance(row, np.ndarray) else repr(row).encode() for row in values]
    numbers = {text: digest(text) for text in set(texts)}
    return np.array([numbers[text] for text in texts], np.int64).view(np.uint64)
