"""The rows that validation holds out when the user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import split
from representer.errors import DataError
from representer.estimators.classes import Classes
from representer.estimators.targets import Target, require_same_length
from representer.printable import say
from representer.training import generators

FINAL = "final"
FRACTION, LARGEST = 0.1, 0.3  # held out for validation: usually, and at most
ENOUGH = 100  # examples held out, with which kernel and network can be weighed


def validation_fraction(given: float | None, count: int, test: float = 0.0) -> float:
    """Return the fraction of some examples that is held out for validation.

    Args:
        given: By the user; None for a tenth, or as much more as gives 100 examples, up to 0.3.
        count: Number of examples.
        test: Fraction of them that is for tests; at most half of the others is held out unless
            the user says so.
    """
    if given is not None:
        return given
    enough = float(np.clip(ENOUGH / max(1, count), FRACTION, LARGEST))
    return min(enough, (1 - test) / 2)


def random_parts(
    labels: Sequence[str] | None, count: int, fractions: Sequence[float], seed: int, digests: Any
) -> list[list[int]]:
    """Return the rows of each part, the first one for training.

    Classes keep their proportions. Rows with equal digests stay together, unless there are so few
    different ones that a part would be empty, with a notice.

    Raises:
        DataError: There are too few rows.
    """
    if len(np.unique(digests)) < len(digests):
        try:
            return list(split(labels or [""] * count, fractions, seed, digests))
        except DataError:
            say("so few objects differ that equal ones are in several parts: figures are too good")
    if labels is not None:
        return list(split(labels, fractions, seed))
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(count)
    counts = [max(1, round(share * count)) for share in fractions[1:]]
    if sum(counts) > count - 2:
        problem = f"{count} rows cannot be divided into {len(fractions)} parts"
        raise DataError(problem, fix="Add data.")
    parts = np.split(order, np.cumsum(counts))
    return [sorted(part.tolist()) for part in (parts[-1], *parts[:-1])]


def divide(
    target: Target, values: NDArray[Any], groups: Any, fraction: float, seed: int, digests: Any = ()
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and to validate on.

    Classes keep their proportions in both parts. With `groups`, whole groups are held out, so that
    no group, such as a subject or a document, is in both; else equal objects stay together.

    Raises:
        DataError: There are too few rows or groups.
    """
    if groups is not None:
        return _by_groups(target, values, groups, fraction, seed)
    if isinstance(target, Classes):
        labels = [str(value) for value in values]
        train, valid = random_parts(labels, len(labels), (1 - fraction, fraction), seed, digests)
        return train, valid
    missing = np.isnan(values.reshape(len(values), -1)).all(1)
    known = np.flatnonzero(~missing)  # a row without any target has nothing to learn from
    if len(known) < 3:
        raise DataError(f"X has {len(known)} rows with a target; at least 3 are needed")
    own = digests[known] if len(digests) else ()
    parts = random_parts(None, len(known), (1 - fraction, fraction), seed, own)
    train, valid = (known[part].tolist() for part in parts)
    return train, valid


def _by_groups(
    target: Target, values: NDArray[Any], groups: Any, fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    require_same_length(values, groups, "groups")
    own = [str(group) for group in groups]
    names = list(dict.fromkeys(own))
    if len(names) < 2:
        raise DataError(f"groups has one group, {names[0]!r}; validation needs another one")
    is_class = isinstance(target, Classes)
    labels = values if is_class else np.zeros(len(own), dtype=np.int64)
    held_out = held_out_groups(labels, np.asarray(own), names, fraction, seed, FINAL)
    train = [row for row in range(len(own)) if own[row] not in held_out]
    for number, name in enumerate(target.names) if is_class else ():
        if (labels == number).any() and not (labels[train] == number).any():
            problem = f"all examples of the class {name!r} are in one group"
            raise DataError(problem, fix="Add groups with this class, or leave it out.")
    return train, [row for row in range(len(own)) if own[row] in held_out]


def held_out_groups(
    labels: NDArray[Any],
    groups: NDArray[Any],
    names: Sequence[str],
    fraction: float,
    seed: int,
    purpose: str,
) -> set[str]:
    """Return the groups held out for validation, in proportion from each kind of group.

    Two groups are of one kind if they have the same classes. A group that alone has a class is
    held out only if there is no other.

    Args:
        labels: The class of each row ``(N,)``.
        groups: The group of each row ``(N,)``.
        names: The groups to choose from, at least two.
        fraction: Held out, at least one group of each kind.
        seed: Determines the choice.
        purpose: Other purposes have other choices.
    """
    kinds = groups_by_classes(labels, groups, names, seed, purpose)
    count = max(len(kinds), round(fraction * len(names)))
    keyed = [
        ((rank + 0.5) / len(of_kind), group)
        for of_kind in kinds.values()
        for rank, group in enumerate(of_kind)
    ]
    order = [group for _, group in sorted(keyed, key=lambda k: k[0])]
    classes = {group: set(kind) for kind, of_kind in kinds.items() for group in of_kind}
    known, chosen = set().union(*classes.values()), set[str]()
    for group in order:
        left = [other for other in order if other not in chosen and other != group]
        if len(chosen) < count and left and set().union(*(classes[o] for o in left)) == known:
            chosen.add(group)
    return chosen or set(order[:1])


def groups_by_classes(
    labels: NDArray[Any], groups: NDArray[Any], names: Sequence[str], seed: int, purpose: str
) -> dict[tuple[int, ...], list[str]]:
    """Return groups in random order by the classes that they have; see `held_out_groups`."""
    rng = np.random.default_rng(generators.derive(seed, "subjects", purpose))
    kinds: dict[tuple[int, ...], list[str]] = {}
    for group in rng.permutation(np.asarray(names, dtype=object)).tolist():
        classes = np.unique(labels[groups == group])
        kinds.setdefault(tuple(classes.tolist()), []).append(group)
    return kinds
