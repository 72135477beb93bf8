"""Counts of the colors of objects, and their overlap: common colors over all colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

ROWS = 2048  # objects to compare at a time


@dataclass(frozen=True)
class ColorCounts:
    r"""The number of nodes of each color of some objects.

    .. math:: k(x, y) = \frac{\sum_c \min(x_c, y_c)}{\sum_c \max(x_c, y_c)}

    Args:
        known: Counts of the numbered colors ``(N, F)``, at least 1 where stored.
        sizes: Number of nodes of each object ``(N,)``, those without a numbered color included.
        width: F.
    """

    known: sparse.csr_array
    sizes: NDArray[np.int64]
    width: int

    ARRAYS: ClassVar[tuple[str, ...]] = ("ends", "colors", "counts", "sizes")

    @classmethod
    def of(cls, colors: Sequence[NDArray[np.int64]], width: int) -> Self:
        """Return the counts of objects from the color of each of their nodes, -1 if it is new."""
        sizes = np.array([len(own) for own in colors], np.int64)
        rows, joined = np.repeat(np.arange(len(colors)), sizes), np.concatenate(colors)
        is_known = joined >= 0
        entries = np.ones(int(is_known.sum())), (rows[is_known], joined[is_known])
        counts = sparse.coo_array(entries, shape=(len(colors), width)).tocsr()
        return cls(sparse.csr_array(counts), sizes, width)

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, rows: NDArray[np.int64]) -> Self:
        """Return the counts of some of the objects."""
        return type(self)(sparse.csr_array(self.known[rows]), self.sizes[rows], self.width)

    def overlaps(self, other: ColorCounts) -> NDArray[np.float64]:
        """Return k of each object with each of another list ``(N, M)``."""
        most = np.minimum(_largest(self.known), _largest(other.known))
        left, right = _unary(self.known, most), _unary(other.known, most).T.tocsr()
        result = np.empty((len(self), len(other)))
        for start in range(0, len(self), ROWS):
            rows = slice(start, start + ROWS)
            common = (left[rows] @ right).toarray()  # type: ignore[attr-defined]
            every = self.sizes[rows, None] + other.sizes - common
            result[rows] = np.where(every, common / np.maximum(every, 1), 1)  # 1 without any
        return result

    def parts(self, other: ColorCounts, coefficients: NDArray[np.float64]) -> dict[int, float]:
        """Return the part of each color of a single object in a weighted sum of its overlaps.

        Args:
            other: The objects that it overlaps with.
            coefficients: The weight of each ``(M,)``.
        """
        colors, counts = self.known.indices, self.known.data
        shared = other.known[:, colors].tocoo()
        rows, columns = shared.coords
        common = np.minimum(shared.data, counts[columns])
        sizes = self.sizes[0] + other.sizes - np.bincount(rows, common, len(other))
        values = np.bincount(columns, common * coefficients[rows] / sizes[rows], len(colors))
        return dict(zip(colors.tolist(), values.tolist(), strict=True))

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return plain arrays for `from_arrays`, by the names in `ARRAYS`."""
        known = self.known
        parts = (known.indptr, known.indices, known.data, self.sizes)
        return {name: own.astype(np.int64) for name, own in zip(self.ARRAYS, parts, strict=True)}

    @classmethod
    def from_arrays(
        cls,
        ends: NDArray[np.int64],
        colors: NDArray[np.int64],
        counts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        width: int,
    ) -> Self:
        """Return the counts that `arrays` described.

        Raises:
            ValueError: They do not fit together.
        """
        is_sorted = len(ends) == len(sizes) + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()
        if not is_sorted or not len(colors) == len(counts) == ends[-1] or (counts < 1).any():
            raise ValueError("the counts of colors are damaged")
        if len(colors) and not 0 <= colors.min() <= colors.max() < width:
            raise ValueError(f"a color is out of the range 0 to {width - 1}")
        shape = (len(sizes), width)
        known = sparse.csr_array((counts.astype(np.float64), colors, ends), shape=shape)
        if (np.asarray(known.sum(axis=1)).ravel() > sizes).any() or (sizes < 0).any():
            raise ValueError("the counts of colors exceed the number of nodes")
        return cls(known, sizes, width)


def _largest(counts: sparse.csr_array) -> NDArray[np.int64]:
    return counts.max(axis=0).toarray().ravel().astype(np.int64)


def _unary(counts: sparse.csr_array, most: NDArray[np.int64]) -> sparse.csr_array:
    """Return columns of zeros and ones, whose inner products are sums of minima.

    The count c of a color becomes c ones in the first c of its columns.

    Args:
        counts: ``(N, F)``.
        most: Columns of each color ``(F,)``; larger counts are cut.
    """
    starts = np.cumsum(most) - most
    repeats = np.minimum(counts.data.astype(np.int64), most[counts.indices])
    firsts = np.repeat(np.cumsum(repeats) - repeats, repeats)
    columns = np.repeat(starts[counts.indices], repeats) + np.arange(len(firsts)) - firsts
    before = np.concatenate([[0], np.cumsum(repeats)])
    ones = np.ones(len(columns), np.float32)  # exact up to 2^24 nodes
    shape = (len(counts.indptr) - 1, max(1, int(most.sum())))
    return sparse.csr_array((ones, columns, before[counts.indptr]), shape=shape)
