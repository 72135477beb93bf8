"""Tokens and codes as numbers: of many sequences at once, and by hashing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

SPACE = " "


class Numbered(NamedTuple):
    """Sequences of tokens as numbers."""

    tokens: list[Any]  # the distinct tokens, in the order in which they first occur
    ids: NDArray[np.int64]  # the number of each token of all sequences ``(T,)``
    lengths: NDArray[np.int64]  # of the sequences ``(N,)``

    @classmethod
    def of(cls, sequences: Iterable[Sequence[Hashable]]) -> Self:
        """Number the tokens of sequences."""
        every, lengths = list[Hashable](), list[int]()  # many small lists occupy the collector
        for sequence in sequences:
            every += sequence
            lengths.append(len(sequence))
        numbers = defaultdict[Hashable, int](count().__next__)
        ids = np.fromiter(map(numbers.__getitem__, every), np.int64, len(every))
        return cls([*numbers], ids, np.array(lengths, np.int64))

    @classmethod
    def of_characters(cls, words: Sequence[str]) -> Self:
        """Number the characters of words with a space before and after each."""
        joined = f"{SPACE}{(2 * SPACE).join(words)}{SPACE}" if words else ""
        points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        numbers = np.full(points.max(initial=0) + 1, len(points))
        numbers[points[::-1]] = np.arange(len(points))[::-1]  # where each first occurs
        distinct = np.flatnonzero(numbers < len(points))
        distinct = distinct[np.argsort(numbers[distinct])]
        numbers[distinct] = np.arange(len(distinct))
        lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
        return cls([*map(chr, distinct.tolist())], numbers[points], lengths)

    def lists(self, values: Sequence[Any] | None = None) -> list[list[Any]]:
        """Return the tokens of each sequence, or a value for each of them."""
        ends, tokens = np.cumsum(self.lengths).tolist(), self.tokens if values is None else values
        every = [tokens[number] for number in self.ids.tolist()]
        return [every[a:b] for a, b in zip([0, *ends], ends, strict=False)]


class CodeIndex:
    """The positions of codes, as a hash table with open addressing that is made when needed.

    A binary search misses the cache at each of its steps.

    Args:
        codes: Distinct codes, 0 or more.
    """

    def __init__(self, codes: NDArray[np.int64]) -> None:
        self._codes, self._bits = codes, len(codes).bit_length() + 1

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        """The position of the code in each slot, -1 without one."""
        table = np.full(1 << self._bits, -1, np.int32)
        waiting = np.arange(len(self._codes), dtype=np.int32)
        slots = self._first(self._codes)
        while len(waiting):
            is_free = table[slots] < 0
            table[slots[is_free]] = waiting[is_free]  # of several codes, the last one stays
            is_left = table[slots] != waiting
            waiting, slots = waiting[is_left], (slots[is_left] + 1) & (len(table) - 1)
        return table

    def positions(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the position of each code, -1 if it is not there."""
        if not len(self._codes):
            return np.full(len(codes), -1, np.int32)
        slots = self._first(codes)
        result = self._table[slots]
        others = np.flatnonzero((result >= 0) & (self._codes[result] != codes))
        while len(others):
            slots[others] = (slots[others] + 1) & (len(self._table) - 1)
            result[others] = held = self._table[slots[others]]
            others = others[(held >= 0) & (self._codes[held] != codes[others])]
        return result

    def _first(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first slot of each code: the highest bits of a product, Knuth's hash."""
        product = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (product >> np.uint64(64 - self._bits)).astype(np.int64)
