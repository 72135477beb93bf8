"""``representer drift``: whether two files hold objects from one distribution, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from representer.data.tables import left_out
from representer.errors import plural, say
from representer.estimators.halves import JointTarget, Pool
from representer.estimators.kernel_machine import KernelMachine, compressed
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import Numbers
from representer.kernels.two_sample import TwoSample, permutation_test
from representer.tasks.use import EstimatorUse

SHOWN = 10
GROUPS = 4  # in each file; the exchanges of fewer have no p-value below 0.05
EXPLAINED = 200  # objects of each set at most; more change the largest differences little
_ROUNDING = 1e-12  # what equal sets differ by


class Difference(NamedTuple):
    """An n-gram, a part of graphs or a band."""

    what: str  # its name
    summand: float  # its summand of the squared distance of the means of both sets
    first: float  # share of the objects of the first set that have it
    second: float  # the same for the second set


class Drift(NamedTuple):
    """Two sets of objects compared."""

    test: TwoSample  # the test of `kernels.two_sample_test`
    differences: list[Difference]  # what sets them apart, the largest summand in size first


def drift(
    use: EstimatorUse, new: Callable[..., SupervisedEstimator], first: str | Path,
    second: str | Path, options: Any, grouping: Any = None, *, permutations: int, limit: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Compare the objects of two files, and return the result for the terminal.

    Raises:
        DataError: Objects cannot be used.
        ArgumentError: There are too few.
    """
    reading: dict[str, Any] = asdict(options) | {"is_regression": False, "require_labels": False}
    named = {"groups": grouping.groups} if grouping and grouping.groups else {}
    sets = [use.read(path, **reading, **named) for path in (first, second)]
    sets = [each.in_groups() for each in sets] if named else sets
    estimator = new(*sets)
    for k, objects in enumerate(sets):
        usable = objects.usable(lambda one: use.reason(estimator, None, one), use.noun, use.remedy)
        for line in filter(None, (*usable.notes, left_out(usable.dropped))):
            say(f"{usable.source}: {line}")
        if len(usable) > limit:
            say(f"{usable.source}: {limit:,} of {len(usable):,} {plural(use.noun)} are compared")
            rows = np.random.default_rng([seed, k]).choice(len(usable), limit, replace=False)
            usable = usable.subset(sorted(rows.tolist()))
        sets[k] = usable
    groups = [(k, str(group)) for k, each in enumerate(sets) for group in use.groups(each)]
    counts = [len({group for group in groups if group[0] == k}) for k in range(2)]
    if groups and min(counts) < GROUPS:
        say(f"the files have {counts[0]} and {counts[1]} {use.group}s. With fewer than {GROUPS} in "
            f"each, single {plural(use.noun)} are exchanged, as if those of a {use.group} did not "
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
        "counts": [len(each) for each in sets],
        "differences": [difference._asdict() for difference in differences[:SHOWN]],
        f"{sets[1].place}s_least_like_the_first_file": unlike,
    }


def compare_sets(
    estimator: SupervisedEstimator, first: Sequence[Any], second: Sequence[Any], *,
    permutations: int, seed: int, groups: Sequence[Any] | None = None,
) -> Drift:  # fmt: skip
    """Return the two-sample test by the kernel of an estimator, which learns from both sets.

    The estimator is a new one, and is changed; ``groups`` are those of both sets ``(N + M,)``.
    """
    objects = estimator.checked_objects([*first, *second])
    estimator.inputs_ = estimator.learn_inputs(objects, seed)
    read = estimator.kernel_objects(objects)
    kernel = estimator.kernel_candidates(read)[-1]
    rows, basis = compressed(kernel, kernel.fit_transform(read))
    gram = rows @ rows.T
    gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
    count = len(first)
    test = permutation_test(gram, count, permutations=permutations, groups=groups, seed=seed)
    direction = np.asarray(rows[count:].mean(0) - rows[:count].mean(0))[None]
    coefficients = direction if basis is None else direction @ basis
    machine = KernelMachine(kernel, coefficients, np.zeros(1), penalty=1.0)
    estimator.target_ = Numbers((0.0,), (1.0,))  # one output, the direction
    estimator.targets_ = (JointTarget(Pool(1.0, 0.0, 1.0, 0.0, 0.0), machine),)
    return Drift(test, _differences(estimator, objects, count))


def _differences(estimator: Any, objects: Sequence[Any], count: int) -> list[Difference]:
    sums: dict[str, float] = {}
    counts: list[Counter[str]] = [Counter(), Counter()]
    sizes = [0, 0]
    for k, half in enumerate((objects[:count], objects[count:])):
        shown = half[:: -(-len(half) // EXPLAINED)]  # from all of them: files are often sorted
        sizes[k] = len(shown)
        for item in shown:
            parts = estimator.explain_kernel(item, 0)[2]
            for term in parts:
                value = (2 * k - 1) * term.contribution / len(shown)
                sums[term.what] = sums.get(term.what, 0.0) + value
            counts[k].update({term.what for term in parts})
    term = [
        Difference(what, value, counts[0][what] / sizes[0], counts[1][what] / sizes[1])
        for what, value in sums.items()
        if abs(value) > _ROUNDING
    ]
    return sorted(term, key=lambda one: -abs(one.summand))
