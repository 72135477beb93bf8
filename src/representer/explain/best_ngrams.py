"""The k largest of all gapped n-grams of a sequence, without listing them all.

An n-gram i_1 < ... < i_n contributes to a read-out

    prod_j w_{i_j} p_j[i_j]  *  prod over skipped s, i_1 < s < i_n, of lam_s  *  tail[i_n]

Decays are non-negative, so it suffices to keep, for every j and step, the k largest absolute values
of the partial n-grams that end there: scaling by lam or |p| preserves their order. This is exact,
and takes O(T n k) steps instead of T over n.

Lei et al. 2017, (3), (4) and section 4: the weight of an n-gram is the product of the gates that
it skips. Shapes: T time, n order.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

Partial = tuple[float, tuple[int, ...]]  # absolute value, positions


class NgramContribution(NamedTuple):
    """One gapped n-gram of a sequence and its contribution.

    Attributes:
        positions: Positions of its tokens, 0-based, ascending.
        contribution: Its term of the state.
    """

    positions: tuple[int, ...]
    contribution: float


def best_ngrams(
    products: Sequence[Sequence[float]],
    decay: Sequence[float],
    tail: Sequence[float],
    k: int,
) -> list[NgramContribution]:
    """Return the k n-grams of largest absolute contribution, in descending order.

    Args:
        products: w_t p_j[t], ``T`` rows of ``n``.
        decay: lam_t, non-negative.
        tail: Weight of an n-gram that ends at t.
        k: Maximum number of n-grams.

    Among n-grams of equal absolute contribution, those that end later come first. Which of them
    are kept is undefined if there are more than k.
    """
    order = len(products[0]) if products else 0
    shorter: list[list[Partial]] = [[(1.0, ())], *([] for _ in range(order - 1))]  # orders 0..n-1
    ended: list[Partial] = []
    for t, (row, lam) in enumerate(zip(products, decay, strict=True)):
        ended = _merge_extended(ended, abs(row[-1] * tail[t]), shorter[-1], t, k)
        for j in range(order - 1, 0, -1):
            kept = [(lam * size, positions) for size, positions in shorter[j]]
            shorter[j] = _merge_extended(kept, abs(row[j - 1]), shorter[j - 1], t, k)
    return [NgramContribution(i, _sign(products, tail, i) * size + 0.0) for size, i in ended]


def _merge_extended(
    kept: list[Partial], factor: float, shorter_ngrams: list[Partial], t: int, k: int
) -> list[Partial]:
    """Return the k largest of ``kept`` and of ``shorter_ngrams`` extended by t; both are sorted."""
    if len(kept) == k and (not shorter_ngrams or factor * shorter_ngrams[0][0] < kept[-1][0]):
        return kept
    extended = ((factor * size, (*positions, t)) for size, positions in shorter_ngrams)
    return list(islice(merge(extended, kept, key=lambda entry: -entry[0]), k))


def _sign(
    products: Sequence[Sequence[float]], tail: Sequence[float], positions: tuple[int, ...]
) -> float:
    negative = sum(products[i][j] < 0 for j, i in enumerate(positions)) + (tail[positions[-1]] < 0)
    return -1.0 if negative % 2 else 1.0
