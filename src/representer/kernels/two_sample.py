"""The kernel two-sample test of whether two sets of objects come from one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from representer.checks import check_integer
from representer.errors import ArgumentError, ShapeError
from representer.kernels.gram import as_array
from representer.kernels.kernel import Kernel, check_kernel
from representer.kernels.sequences import require_several

_BLOCK = 2**24  # entries of a block of permutations
_ROUNDING = 1e-12  # relative to the largest entry; equal statistics differ by as much


class TwoSample(NamedTuple):
    """The result of a kernel two-sample test.

    Attributes:
        statistic: The unbiased estimate of the squared maximum mean discrepancy; near 0, also
            below it, if both sets come from one distribution.
        p_value: The probability of a statistic at least as large if they do.
        witness: For each object of X, then of Y, how much more its features are those of Y than
            those of X ``(N + M,)``.
    """

    statistic: float
    p_value: float
    witness: NDArray[np.float64]


def two_sample_test(
    kernel: Kernel, X: Sequence[Any], Y: Sequence[Any], *, permutations: int = 999,
    groups: tuple[ArrayLike, ArrayLike] | None = None, seed: int = 0,
) -> TwoSample:  # fmt: skip
    """Test whether two sets of texts, graphs, signals or vectors come from one distribution.

    The objects are exchanged between the sets at random, so that the probability of a false alarm
    at level a is at most a, whatever the kernel and the number of objects.

    Args:
        kernel: A kernel of the objects. One that is fitted, also in a sum or product, learns from
            both sets together.
        X: N objects, at least 2.
        Y: M objects, at least 2.
        permutations: Number of random exchanges; the smallest p-value is 1 / (permutations + 1).
        groups: The group of each object of X and of Y, such as the subject of a recording, where
            objects of a group resemble each other: whole groups are exchanged.
        seed: Of the exchanges.

    Raises:
        ArgumentError: There are too few objects, groups or permutations.

    References:
        Gretton et al., A Kernel Two-Sample Test, JMLR 2012, (3).
    """
    check_kernel(kernel)
    if kernel.objects == "vectors":
        both: Any = np.concatenate([X, Y])
    else:
        require_several(X, "objects", "X")
        require_several(Y, "objects", "Y")
        both = [*X, *Y]
    if hasattr(kernel, "fit"):
        kernel = clone(kernel).fit(both)  # type: ignore[attr-defined]
    joined = None if groups is None else [*np.asarray(groups[0]), *np.asarray(groups[1])]
    gram = as_array(kernel(both))
    return permutation_test(gram, len(X), permutations=permutations, groups=joined, seed=seed)


def permutation_test(
    gram: NDArray[np.float64], count: int, *, permutations: int = 999,
    groups: Sequence[Any] | None = None, seed: int = 0,
) -> TwoSample:  # fmt: skip
    """Test two sets by the Gram matrix of both; see `two_sample_test`.

    The matrix ``(N + M, N + M)`` is of the objects of the first set, ``count`` of them, then of the
    second.
    """
    total = len(gram)
    if gram.shape != (total, total):
        raise ShapeError("gram", gram.shape, "(N + M, N + M)")
    if min(count, total - count) < 2:
        sizes = f"{count} and {total - count}"
        raise ArgumentError("the number of objects", sizes, "2 or more in each set")
    check_integer("permutations", permutations)
    names = range(total) if groups is None else [str(group) for group in groups]
    _, group = np.unique(np.asarray(names), return_inverse=True)
    is_first = np.arange(total) < count
    if {*group[:count]} & {*group[count:]}:
        raise ArgumentError("groups", "a group in both sets", "groups that are in one of the sets")
    first = np.zeros(group.max() + 1, dtype=bool)
    first[group[:count]] = True
    rng = np.random.default_rng(seed)
    off_diagonal = gram - np.diag(np.diag(gram))
    observed = _statistics(off_diagonal, is_first[None])[0]
    least = observed - _ROUNDING * np.abs(gram).max()
    reached, left = 1, permutations
    while left:
        block = min(left, max(1, _BLOCK // total))
        drawn = np.stack([rng.permutation(first)[group] for _ in range(block)])
        is_test = (drawn.sum(1) > 1) & (drawn.sum(1) < total - 1)  # large groups may leave one
        reached += int((_statistics(off_diagonal, drawn[is_test]) >= least).sum())
        reached += int((~is_test).sum())
        left -= block
    witness = gram[:, count:].mean(1) - gram[:, :count].mean(1)
    return TwoSample(float(observed), reached / (permutations + 1), witness)


def _statistics(gram: NDArray[np.float64], is_first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the statistic ``(P,)`` of some divisions ``(P, N)``; the diagonal is 0."""
    first = is_first.astype(gram.dtype)
    inner = first @ gram
    n = first.sum(1)
    m = len(gram) - n
    within = (inner * first).sum(1)
    between = (inner * (1 - first)).sum(1)
    others = gram.sum() - within - 2 * between
    return within / (n * (n - 1)) + others / (m * (m - 1)) - 2 * between / (n * m)
