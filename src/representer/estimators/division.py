"""The rows that validation holds out when the user gives none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.text import split
from representer.errors import DataError
from representer.estimators.targets import Classes, Target, require_same_length
from representer.training import generators


def divide(
    target: Target, values: NDArray[Any], groups: Any, fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and to validate on.

    Classes keep their proportions in both parts. With `groups`, whole groups are held out, so that
    no group, such as a subject or a document, is in both.

    Args:
        target: Classes or numbers.
        values: Encoded targets, row by row.
        groups: The group of each row, or None.
        fraction: Held out.
        seed: Determines the choice.

    Raises:
        DataError: There are too few rows or groups.
    """
    count = len(values)
    if groups is not None:
        return _by_groups(values, groups, fraction, seed)
    if isinstance(target, Classes):
        train, valid = split([str(value) for value in values], (1 - fraction, fraction), seed)
        return train, valid
    if count < 3:
        raise DataError(f"X has {count} rows; at least 3 are needed", fix="Add examples.")
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(count)
    held_out = max(1, round(fraction * count))
    return sorted(order[held_out:].tolist()), sorted(order[:held_out].tolist())


def _by_groups(
    values: NDArray[Any], groups: Any, fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    require_same_length(values, groups, "groups")
    own = [str(group) for group in groups]
    names = sorted(set(own))
    if len(names) < 2:
        raise DataError(f"groups has one group, {names[0]!r}; validation needs another one")
    order = np.random.default_rng(generators.derive(seed, "split")).permutation(len(names))
    held_out = {names[i] for i in order[: max(1, round(fraction * len(names)))]}
    valid = [row for row, name in enumerate(own) if name in held_out]
    return [row for row in range(len(own)) if own[row] not in held_out], valid
