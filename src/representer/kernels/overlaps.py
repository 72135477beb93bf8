"""Counts of colors and numbers of whole objects, compared between two lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Counts of the colors of objects, and their overlap: common colors over all colors.

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
        sizes = np.array([len(c) for c in colors], np.int64)
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

    def common(self, other: ColorCounts) -> NDArray[np.float64]:
        """Return the number of colors that each object shares with each of another list."""
        most = np.minimum(_largest(self.known), _largest(other.known))
        left, right = _unary(self.known, most), _unary(other.known, most).T.tocsr()
        result = np.empty((len(self), len(other)))
        for start in range(0, len(self), ROWS):
            rows = slice(start, start + ROWS)
            result[rows] = (left[rows] @ right).toarray()  # type: ignore[attr-defined]
        return result

    def parts(self, other: ColorCounts, coefficients: NDArray[np.float64]) -> dict[int, float]:
        """Return the part of each color of a single object in a weighted sum of common counts."""
        colors, counts = self.known.indices, self.known.data
        shared = other.known[:, colors].tocoo()
        rows, columns = shared.coords
        common = np.minimum(shared.data, counts[columns])
        values = np.bincount(columns, common * coefficients[rows], len(colors))
        return dict(zip(colors.tolist(), values.tolist(), strict=True))

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return plain arrays for `from_arrays`, by the names in `ARRAYS`."""
        counts = self.known
        parts = (counts.indptr, counts.indices, counts.data, self.sizes)
        return {name: x.astype(np.int64) for name, x in zip(self.ARRAYS, parts, strict=True)}

    @classmethod
    def from_arrays(
        cls, ends: NDArray[np.int64], colors: NDArray[np.int64], counts: NDArray[np.int64],
        sizes: NDArray[np.int64], width: int,
    ) -> Self:  # fmt: skip
        """Return the counts that `arrays` described."""
        is_sorted = len(ends) == len(sizes) + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()
        if not is_sorted or not len(colors) == len(counts) == ends[-1] or (counts < 1).any():
            raise ValueError("the counts of colors are damaged")
        if len(colors) and not 0 <= colors.min() <= colors.max() < width:
            raise ValueError(f"a color is out of the range 0 to {width - 1}")
        shape = (len(sizes), width)
        table = sparse.csr_array((counts.astype(np.float64), colors, ends), shape=shape)
        if (np.asarray(table.sum(axis=1)).ravel() > sizes).any() or (sizes < 0).any():
            raise ValueError("the counts of colors exceed the number of nodes")
        return cls(table, sizes, width)


Sizes = NDArray[np.int64] | np.int64
OVERLAPS = ("min-max", "assignment")


def denominator(
    common: NDArray[np.float64], left: Sizes, right: Sizes, kind: str = OVERLAPS[0]
) -> NDArray[np.float64]:
    """Return what common colors are divided by, at least 1.

    Of ``"min-max"`` these are all colors of both objects; of ``"assignment"``, the geometric mean
    of their sizes, since the common colors are those of the best assignment of nodes to nodes.
    """
    every = left + right - common if kind == "min-max" else np.sqrt(left * right)
    return np.maximum(every, 1.0)


def overlap(
    common: NDArray[np.float64], left: Sizes, right: Sizes, kind: str = OVERLAPS[0]
) -> NDArray[np.float64]:
    """Return common colors over their `denominator`; 1 for two objects without any."""
    return np.where(left + right, common / denominator(common, left, right, kind), 1)


def _largest(counts: sparse.csr_array) -> NDArray[np.int64]:
    return counts.max(axis=0).toarray().ravel().astype(np.int64)


def _unary(counts: sparse.csr_array, most: NDArray[np.int64]) -> sparse.csr_array:
    """Return columns of zeros and ones, whose inner products are sums of minima.

    The count c of a color becomes c ones in the first c of its columns. ``most`` are the columns of
    each color ``(F,)``; larger counts are cut.
    """
    starts = np.cumsum(most) - most
    repeats = np.minimum(counts.data.astype(np.int64), most[counts.indices])
    firsts = np.repeat(np.cumsum(repeats) - repeats, repeats)
    columns = np.repeat(starts[counts.indices], repeats) + np.arange(len(firsts)) - firsts
    before = np.concatenate([[0], np.cumsum(repeats)])
    ones = np.ones(len(columns), np.float32)  # exact up to 2^24 nodes
    shape = (len(counts.indptr) - 1, max(1, int(most.sum())))
    return sparse.csr_array((ones, columns, before[counts.indptr]), shape=shape)


# Numbers of whole objects, such as descriptors of molecules, in a Gaussian kernel.

LARGEST = 3.0  # standard deviations; beyond, numbers of rare objects are cut
SMALLEST = 1e-8  # of a standard deviation
MEASURED = 800  # objects whose distances are found
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)  # of an integral from -1 to 1


@dataclass(frozen=True)
class NumberSpace:
    r"""A Gaussian kernel of standardized numbers, :math:`\exp(-\|z - z'\|^2 / b)`.

    Args:
        means: Subtracted from each number ``(D,)``.
        scales: Divided by ``(D,)``; 0 where a number is constant, and of no use.
        width: b, the median squared distance of the objects that the kernel is fitted to; if most
            are equal, of those that differ.
    """

    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    width: float

    @classmethod
    def find(cls, numbers: NDArray[np.float64]) -> Self:
        """Return the space of some objects ``(N, D)``; numbers that are not finite are unknown."""
        finite = np.ma.masked_invalid(numbers)
        means, scales = (np.ma.filled(x, 0.0) for x in (finite.mean(0), finite.std(0)))
        space = cls(means, np.where(scales > SMALLEST, scales, 0.0), 1.0)
        some = space.encode(numbers[:MEASURED])
        apart = _distances(some, some)[np.triu_indices(len(some), 1)]
        differ = apart[apart > SMALLEST]
        usual = differ if 2 * differ.size < apart.size else apart  # the median is 0 of mostly equal
        return cls(means, space.scales, float(np.median(usual)) if differ.size else 1.0)

    def encode(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standardized numbers ``(N, D)``, 0 where unknown."""
        is_used = self.scales > 0
        z = np.where(is_used, (numbers - self.means) / np.where(is_used, self.scales, 1.0), 0.0)
        return np.nan_to_num(z, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)

    def overlaps(
        self, left: NDArray[np.float64], right: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the kernel of encoded numbers ``(N, M)``."""
        return np.exp(-_distances(left, right) / self.width)

    def parts(
        self, z: NDArray[np.float64], others: NDArray[np.float64], coefficients: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        r"""Return a weighted sum f of kernel values at the means, and the part of each number.

        The parts are the integrals :math:`z_d \int_0^1 \partial_d f(t z)\, dt`, which sum to
        :math:`f(z) - f(0)`. ``z`` are the encoded numbers of an object ``(D,)``, and ``others``
        those that it is compared with ``(M, D)``.

        References:
            Sundararajan et al., Axiomatic Attribution for Deep Networks, ICML 2017.
        """
        path = (NODES[:, None] + 1) / 2 * z
        weighted = self.overlaps(path, others) * coefficients
        slopes = 2 / self.width * (weighted @ others - weighted.sum(1, keepdims=True) * path)
        parts = z * (WEIGHTS / 2 @ slopes)
        first, last = self.overlaps(np.stack([0 * z, z]), others) @ coefficients
        error = last - first - parts.sum()  # of the rule, about 1e-12
        return float(first), parts + error * np.abs(z) / max(np.abs(z).sum(), SMALLEST)


def _distances(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
    return np.maximum(squares, 0.0)
