"""N-gram counts with Kneser-Ney smoothing, the baseline of language models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError

Numbers = NDArray[np.int64]
DISCOUNT = 0.75


def kneser_ney(train: Numbers, test: Numbers, words: int, order: int = 3) -> float:
    r"""Return the mean negative log-likelihood of a text under interpolated Kneser-Ney smoothing.

    .. math::
        p(w \mid u) = \frac{\max(c(uw) - D, 0)}{c(u)}
            + D \frac{N(u)}{c(u)} \, p(w \mid u')

    in nats per token, with :math:`N(u)` the number of distinct words seen after the context u,
    :math:`u'` the context without its first word, D = 0.75, and 1 / V below the shortest. The
    counts of the longest n-grams are occurrences; those of shorter ones are the numbers of
    distinct words seen before them. The first token of the text is given, not predicted.

    Args:
        train: Ids of the tokens to count ``(N,)``.
        test: Ids of the tokens to predict ``(M,)``.
        words: V, the size of the vocabulary.
        order: n, length of the longest n-gram.

    Raises:
        ArgumentError: If n-grams of that order cannot be numbered, or the order is not positive.

    References:
        Chen and Goodman, An empirical study of smoothing techniques for language modeling, 1999.
    """
    if order < 1 or words**order >= 2**62:
        most = int(62 / np.log2(words))
        raise ArgumentError("order", order, f"1 to {most} with {words:,} distinct tokens")
    p = np.full(len(test) - 1, 1 / words)
    longest = min(order, len(train), len(test))
    for n in range(1, longest + 1):
        kinds, counts = _counted(train, n, words, is_longest=n == longest)
        followed = _table(kinds // words, counts)
        different = _table(kinds // words, np.ones_like(counts))
        at = _ngrams(test, n, words)[1 if n == 1 else 0 :]  # the first token has no context
        seen = _look_up((kinds, counts), at)
        total = _look_up(followed, at // words).astype(float)
        other = _look_up(different, at // words)
        lower = p[len(p) - len(at) :]
        with np.errstate(invalid="ignore", divide="ignore"):
            better = (np.maximum(seen - DISCOUNT, 0) + DISCOUNT * other * lower) / total
        p[len(p) - len(at) :] = np.where(total > 0, better, lower)
    return float(-np.log(p).mean())


def _ngrams(tokens: Numbers, n: int, words: int) -> Numbers:
    """Return the id of the n-gram that ends at each token, starting with the n-th token."""
    keys = np.zeros(len(tokens) - n + 1, dtype=np.int64)
    for k in range(n):
        keys = keys * words + tokens[k : len(tokens) - n + 1 + k]
    return keys


def _counted(tokens: Numbers, n: int, words: int, *, is_longest: bool) -> tuple[Numbers, Numbers]:
    """Return the distinct n-grams and their counts: occurrences, or distinct preceding words."""
    if is_longest:
        return np.unique(_ngrams(tokens, n, words), return_counts=True)
    longer = np.unique(_ngrams(tokens, n + 1, words))
    return np.unique(longer % words**n, return_counts=True)


def _table(keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct keys of a sorted array, and the sums of their values."""
    kinds, starts = np.unique(keys, return_index=True)
    return kinds, np.add.reduceat(values, starts)


def _look_up(table: tuple[Numbers, Numbers], keys: Numbers) -> Numbers:
    """Return the value of each key, or 0 if the table does not contain it."""
    kinds, values = table
    place = np.minimum(np.searchsorted(kinds, keys), len(kinds) - 1)
    return np.where(kinds[place] == keys, values[place], 0)
