"""The kernel of an estimator as a test of two sets of objects, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from representer.estimators.joint_target import JointTarget
from representer.estimators.kernel_machine import KernelMachine, compressed
from representer.estimators.pool import Pool
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import Numbers
from representer.kernels.two_sample import TwoSample, permutation_test

EXPLAINED = 200  # objects of each set at most; more change the largest differences little
_ROUNDING = 1e-12  # what equal sets differ by


class Difference(NamedTuple):
    """An n-gram, a part of graphs or a band.

    Attributes:
        what: Its name.
        summand: Its summand of the squared distance of the means of both sets.
        first: Share of the objects of the first set that have it.
        second: The same for the second set.
    """

    what: str
    summand: float
    first: float
    second: float


class Drift(NamedTuple):
    """Two sets of objects compared.

    Attributes:
        test: The test of `kernels.two_sample_test`.
        differences: What sets them apart, the largest summand in size first.
    """

    test: TwoSample
    differences: list[Difference]


def compare_sets(
    estimator: SupervisedEstimator,
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    permutations: int,
    seed: int,
    groups: Sequence[Any] | None = None,
) -> Drift:
    """Return the two-sample test by the kernel of an estimator, which learns from both sets.

    Args:
        estimator: A new estimator; it is changed.
        first: N objects.
        second: M objects.
        permutations: Number of random exchanges.
        seed: Of the exchanges.
        groups: The group of each object of both sets ``(N + M,)``.
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
    for k, part in enumerate((objects[:count], objects[count:])):
        shown = part[:: -(-len(part) // EXPLAINED)]  # from all of them: files are often sorted
        sizes[k] = len(shown)
        for one in shown:
            parts = estimator.explain_kernel(one, 0)[2]
            for found in parts:
                value = (2 * k - 1) * found.contribution / len(shown)
                sums[found.what] = sums.get(found.what, 0.0) + value
            counts[k].update({found.what for found in parts})
    found = [
        Difference(what, value, counts[0][what] / sizes[0], counts[1][what] / sizes[1])
        for what, value in sums.items()
        if abs(value) > _ROUNDING
    ]
    return sorted(found, key=lambda one: -abs(one.summand))
