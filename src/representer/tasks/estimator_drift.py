"""``representer drift``: whether two files hold objects from one distribution, and what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.tables import left_out
from representer.estimators.drift import compare_sets
from representer.estimators.supervised import SupervisedEstimator
from representer.printable import say
from representer.tasks.estimator_use import EstimatorUse

SHOWN = 10
GROUPS = 4  # in each file; the exchanges of fewer have no p-value below 0.05


def drift(
    use: EstimatorUse,
    new: Callable[..., SupervisedEstimator],
    first: str | Path,
    second: str | Path,
    options: Any,
    *,
    permutations: int,
    limit: int,
    seed: int,
) -> dict[str, Any]:
    """Compare the objects of two files, and return the result for the terminal.

    Args:
        use: Reads the files.
        new: From the objects of both files to an estimator with their kernel.
        first: The earlier file.
        second: The later file.
        options: Those of reading; labels are not needed.
        permutations: Number of random exchanges.
        limit: Largest number of objects of a file; a random part of more is compared.
        seed: Of the exchanges, and of that part.

    Raises:
        DataError: Objects cannot be used.
        ArgumentError: There are too few.
    """
    reading = asdict(options)
    sets = [
        use.read(path, **reading, is_regression=False, require_labels=False)
        for path in (first, second)
    ]
    estimator = new(*sets)
    for k, objects in enumerate(sets):
        found = objects.usable(lambda one: use.reason(estimator, None, one), use.noun, use.remedy)
        for line in filter(None, (*found.notes, left_out(found.dropped))):
            say(f"{found.source}: {line}")
        if len(found) > limit:
            say(f"{found.source}: {limit:,} of {len(found):,} {use.noun}s are compared")
            rows = np.random.default_rng([seed, k]).choice(len(found), limit, replace=False)
            found = found.subset(sorted(rows.tolist()))
        sets[k] = found
    groups = [(k, str(group)) for k, one in enumerate(sets) for group in use.groups(one)]
    counts = [len({group for group in groups if group[0] == k}) for k in range(2)]
    if groups and min(counts) < GROUPS:
        say(f"the files have {counts[0]} and {counts[1]} {use.group}s. With fewer than {GROUPS} in "
            f"each, single {use.noun}s are exchanged, as if those of a {use.group} did not "
            f"resemble each other: p is too small")  # fmt: skip
        groups = []
    test, differences = compare_sets(
        estimator, sets[0].objects, sets[1].objects, permutations=permutations, seed=seed,
        groups=[f"{k} {group}" for k, group in groups] or None,
    )  # fmt: skip
    witness = test.witness[len(sets[0]) :]
    unlike = [sets[1].numbers[i] for i in np.argsort(-witness)[:SHOWN].tolist()]
    return {
        "p_value": test.p_value,
        "mmd": test.statistic,
        "permutations": permutations,
        "counts": [len(one) for one in sets],
        "differences": [one._asdict() for one in differences[:SHOWN]],
        f"{sets[1].place}s_least_like_the_first_file": unlike,
    }
