"""The next token of a text from counts of n-grams: the explicit features of a string kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from representer.errors import ArgumentError
from representer.ops.gated_scan import gated_scan

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST = 16  # tokens of an n-gram
_TYPES = (np.int64, np.int32, np.int32)


class NgramTable(NamedTuple):
    """The n-grams of one order, sorted by context and then by last token."""

    # First n-gram of each context, and the number of n-grams ``(C + 1,)``. A context is an n-gram
    # of the order below, and has the number of its position there.
    starts: NDArray[np.int64]
    tokens: NDArray[np.int32]  # the last token of each n-gram ``(F,)``
    # occurrences, or below the highest order the number of distinct tokens that precede the
    # n-gram ``(F,)``
    counts: NDArray[np.int32]


class KneserNey:
    r"""Interpolated Kneser-Ney smoothing with three discounts.

    .. math::
        p_n(w \mid u) = \frac{c(uw) - D_n(c(uw)) + \gamma(u)\, p_{n-1}(w \mid u')}{c(u)}, \qquad
        \gamma(u) = \sum_v D_n(c(uv)), \quad p_0 = 1 / V

    with :math:`u` the last n - 1 tokens, :math:`u'` the last n - 2, :math:`c(u) = \sum_v c(uv)`,
    and :math:`p_n = p_{n-1}` where u is new. The counts of the longest n-grams are occurrences,
    those of shorter ones are numbers of distinct preceding tokens. D depends on a count c through
    min(c, 3), and follows from the numbers of n-grams that occur one to four times.

    :math:`\sum_n c(u_n w)` is a sum over the training text: of the exact string kernel between the
    last tokens and those before each place where w stands, with one-hot tokens, no gaps, and the
    last token matched (L17 (1) with λ = 0). The n-grams are its explicit features, as in
    `NgramKernel`; here each is numbered by its context, so that no order is too long.

    Args:
        order: n, length of the longest n-grams.

    Attributes:
        tables_: The n-grams of each order.
        size_: V, the size of the vocabulary.

    References:
        Chen and Goodman, An empirical study of smoothing techniques for language modeling, 1999,
        (26). Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017.
    """

    def __init__(self, order: int = 5) -> None:
        if type(order) is not int or not 1 <= order <= MOST:
            raise ArgumentError("order", order, f"an integer from 1 to {MOST}")
        self.order = order

    def fit(self, tokens: Numbers, size: int) -> Self:
        """Count the n-grams of a text.

        Args:
            tokens: Ids ``(N,)`` from 0 to V - 1, at least one.
            size: V.
        """
        tables: list[NgramTable] = []
        ends = np.zeros(len(tokens), np.int64)  # number of the n-gram that ends at each token
        contexts = 1
        for n in range(1, min(self.order, len(tokens)) + 1):
            before = ends[: len(tokens) - n + 1] if n > 1 else ends
            kinds, first, inverse, counts = np.unique(
                before * size + tokens[n - 1 :],
                return_index=True, return_inverse=True, return_counts=True,
            )  # fmt: skip
            if n > 1:  # each n-gram is a distinct predecessor of its end
                shorter = tables[-1]
                spread = np.bincount(ends[first + 1], minlength=len(shorter.tokens))
                tables[-1] = shorter._replace(counts=spread.astype(np.int32))
            starts = np.searchsorted(kinds, np.arange(contexts + 1) * size)
            ends_with = (kinds % size).astype(np.int32)
            tables.append(NgramTable(starts, ends_with, counts.astype(np.int32)))
            ends, contexts = inverse, len(kinds)
        return self._set(tables, size)

    def restore(self, tables: Sequence[NgramTable], size: int) -> Self:
        """Set what `fit` finds: ``tables_`` and ``size_``.

        Raises:
            ValueError: The arrays do not fit together.
        """
        contexts = 1
        if not 1 <= len(tables) <= self.order or size < 1:
            raise ValueError(f"{len(tables)} orders of n-grams for {size} tokens")
        for table in tables:
            if any(p.dtype != t or p.ndim != 1 for p, t in zip(table, _TYPES, strict=True)):
                raise ValueError("the n-grams are no integers in one dimension")
            starts, count = table.starts, len(table.tokens)
            has_borders = len(starts) == contexts + 1 and starts[0] == 0 and starts[-1] == count
            if not has_borders or (np.diff(starts) < 0).any() or contexts * size >= 2**62:
                raise ValueError("the n-grams do not fit their contexts")
            if count != len(table.counts) or not count or table.counts.min() < 0:
                raise ValueError("the n-grams do not fit their counts")
            is_known = 0 <= table.tokens.min() <= table.tokens.max() < size
            if not is_known or (np.diff(_keys(table, size)) <= 0).any():
                raise ValueError("the n-grams are unknown or not sorted")
            contexts = count
        return self._set(tables, size)

    def numbers(self, tokens: Numbers) -> Numbers:
        """Return the n-grams that end before each place of a text, also before its end.

        Args:
            tokens: ``(T,)``.

        Returns:
            For n from 0 to the order, the number of the last n tokens, -1 if they are no n-gram of
            the training text ``(n, T + 1)``.
        """
        rows = np.full((len(self.tables_) + 1, len(tokens) + 1), -1)
        rows[0] = 0
        for n, keys in enumerate(self._keys):
            before = rows[n, :-1]
            wanted = before * self.size_ + tokens
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            is_known = (before >= 0) & (keys[places] == wanted)
            rows[n + 1, 1:] = np.where(is_known, places, -1)
        return rows

    def probabilities(self, tokens: Numbers) -> Floats:
        """Return the probability of each token of a text after those before it ``(T,)``."""
        numbers = self.numbers(tokens)
        p = np.full(len(tokens), 1 / self.size_)
        for n, (context, ngram) in enumerate(zip(numbers[:-1, :-1], numbers[1:, 1:], strict=True)):
            kept, total = self._kept[n][context], self._totals[n][context]
            count = np.where(ngram >= 0, self._discounted(n, ngram), 0.0)
            p = np.where((context >= 0) & (total > 0), (count + kept * p) / np.maximum(total, 1), p)
        return p

    def distributions(self, contexts: Numbers) -> Floats:
        """Return the probability of every token after some contexts ``(T, V)``.

        Args:
            contexts: From the longest context of each place to its shortest, as `numbers` returns
                them: ``(n, T)``; further rows have no effect.
        """
        contexts = contexts[: len(self.tables_)]
        count = contexts.shape[1]
        parts = []
        scale = np.ones(count)  # of what the shorter contexts give
        for n in reversed(range(1, len(contexts))):
            total = self._totals[n][contexts[n]]
            seen = np.flatnonzero((contexts[n] >= 0) & (total > 0))
            rows = contexts[n][seen]
            parts.append((n, seen, rows, scale[seen] / total[seen]))
            scale[seen] *= self._kept[n][rows] / total[seen]
        p = scale[:, None] * self._frequencies
        for n, seen, rows, factor in parts:
            table = self.tables_[n]
            lengths = table.starts[rows + 1] - table.starts[rows]
            offsets = np.cumsum(lengths) - lengths
            index = np.arange(lengths.sum()) + np.repeat(table.starts[rows] - offsets, lengths)
            p[np.repeat(seen, lengths), table.tokens[index]] += self._discounted(
                n, index
            ) * np.repeat(factor, lengths)
        return p

    def _discounted(self, n: int, rows: Numbers) -> Floats:
        counts = self.tables_[n].counts[rows]
        return counts - self._discounts[n][np.minimum(counts, 3)]

    def _set(self, tables: Sequence[NgramTable], size: int) -> Self:
        self.tables_, self.size_ = tuple(tables), size
        self._keys = [_keys(table, size) for table in tables]
        self._discounts = [_discounts(table.counts) for table in tables]
        self._totals, self._kept = [], []
        for table, discounts in zip(tables, self._discounts, strict=True):
            self._totals.append(_sums(table.counts, table.starts))
            self._kept.append(_sums(discounts[np.minimum(table.counts, 3)], table.starts))
        words, kept = tables[0].tokens, self._kept[0][0]
        self._frequencies = np.full(size, kept / size)
        self._frequencies[words] += self._discounted(0, np.arange(len(words)))
        self._frequencies /= self._totals[0][0]
        return self


def _keys(table: NgramTable, size: int) -> Numbers:
    """Return context · V + last token of each n-gram."""
    contexts = np.arange(len(table.starts) - 1)
    return np.repeat(contexts, np.diff(table.starts)) * size + table.tokens


def _discounts(counts: NDArray[np.int32]) -> Floats:
    r"""Return D of the counts 0, 1, 2 and more.

    :math:`D_k = k - (k + 1) Y n_{k+1} / n_k` with :math:`Y = n_1 / (n_1 + 2 n_2)` and
    :math:`n_k` the number of n-grams that occur k times, at least Y; k / 2 if one of them is 0.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    k = np.arange(4)
    if not n[1:5].all():
        return k / 2
    y = n[1] / (n[1] + 2 * n[2])
    return np.append(0, np.maximum(k[1:] - (k[1:] + 1) * y * n[2:5] / n[1:4], y))


def _sums(values: NDArray[np.int32] | Floats, starts: Numbers) -> Floats:
    """Return the sum of each part of an array that begins at `starts`."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    return sums[starts[1:]] - sums[starts[:-1]]


# The recent tokens of a text: a string kernel of order 1 with a decay.

Floats_ = NDArray[np.float64]


class RecentTokens:
    r"""The frequency of each token among those already read, recent ones counting more.

    .. math::
        s_t(w) = (1 - \lambda) \sum_{i \le t} \lambda^{t - i}\, \mathbb 1[x_i = w], \qquad
        \sum_w s_t(w) = 1 - \lambda^t

    the string kernel of order 1 between the text and w, with one-hot tokens (L17 (1)): a cache.

    Args:
        decay: λ in (0, 1).

    References:
        Kuhn and De Mori, A Cache-Based Natural Language Model for Speech Recognition, 1990.
    """

    def __init__(self, decay: float) -> None:
        if not 0 < decay < 1:
            raise ArgumentError("decay", decay, "a number between 0 and 1")
        self.decay = decay

    def of_text(self, tokens: NDArray[np.int64]) -> tuple[Floats_, Floats_]:
        """Return s of each token of a text just before it, and the sum of s ``(T,)`` each."""
        if not len(tokens):
            return np.zeros(0), np.zeros(0)
        order = np.argsort(tokens, kind="stable")  # the places of each token, in reading order
        is_repeated = np.append(False, tokens[order[1:]] == tokens[order[:-1]])
        gaps = np.append(0, np.diff(order))
        kept = np.where(is_repeated, self.decay ** np.maximum(gaps, 1), 0.0)
        u, f = (torch.from_numpy(x)[:, None, None] for x in (kept / self.decay, kept))
        counts = np.empty(len(tokens))
        counts[order] = (1 - self.decay) * gated_scan(u, f)[0][:, 0, 0].numpy()
        return counts, 1 - np.power(self.decay, np.arange(len(tokens), dtype=np.float64))

    def after(self, tokens: NDArray[np.int64], before: Floats_) -> Floats_:
        """Return s after the last token of a text ``(V,)``, see `read`."""
        powers = self.decay ** np.arange(len(tokens))[::-1]
        counts = np.bincount(tokens, weights=powers, minlength=len(before))
        return self.decay ** len(tokens) * before + (1 - self.decay) * counts

    def read(self, tokens: NDArray[np.int64], before: Floats_) -> Floats_:
        """Return s after each token of a text ``(T, V)``.

        Args:
            tokens: ``(T,)``.
            before: s before them ``(V,)``; zeros at the beginning of a text.
        """
        powers = self.decay ** np.arange(len(tokens) + 1)
        s = powers[1:, None] * before
        for t, token in enumerate(tokens.tolist()):
            s[t:, token] += (1 - self.decay) * powers[: len(tokens) - t]
        return s
