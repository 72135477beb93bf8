"""The compared graph kernels: walks, summed levels, WL, and compositions of them.

A family is a set of kernels from which the inner folds select one. All kernels are computed from a
few Gram matrices, each of which is computed once; see `Stored`.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from representer.kernels import (
    Gaussian,
    InversePolynomial,
    Kernel,
    RandomWalkKernel,
    WeisfeilerLehmanKernel,
)
from representer.storage import atomic

DECAYS = (0.1, 0.3, 1.0)
BANDWIDTHS = (0.1, 0.3, 1.0)
DEPTH = 6


class Stored(Kernel):
    """A kernel of graph numbers with precomputed values, for use in sums and compositions.

    Args:
        values: The Gram matrix of all graphs.
        scale: Factor of the values.
    """

    def __init__(self, values: np.ndarray, scale: float = 1.0) -> None:
        self.values = values
        self.scale = scale

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        rows = list(X)
        return self.scale * self.values[np.ix_(rows, rows if Y is None else list(Y))]

    def diag(self, X: Iterable[Any]) -> np.ndarray:
        """Return the diagonal of the Gram matrix of X."""
        return self.scale * self.values.diagonal()[list(X)]


class Grams:
    """The Gram matrices of a data set, computed on first use and stored in files of a folder."""

    def __init__(self, folder: Path, graphs: Sequence[Any]) -> None:
        self._folder, self._graphs = folder, graphs

    def walks(self, order: int) -> np.ndarray:
        """Return the Gram matrix of walks of ``order`` nodes."""
        return self._get(f"walks-{order}", RandomWalkKernel(order, base="delta"))

    def subtrees(self, depth: int) -> np.ndarray:
        """Return the Gram matrix of subtrees up to ``depth`` relabelings."""
        return self._get(f"subtrees-{depth}", WeisfeilerLehmanKernel(depth=depth))

    def _get(self, name: str, kernel: Kernel) -> np.ndarray:
        path = self._folder / f"{name}.npy"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            file = io.BytesIO()
            np.save(file, np.asarray(kernel(self._graphs)))
            atomic.write_bytes(path, file.getvalue())
        return np.load(path, mmap_mode="r", allow_pickle=False)


def candidates(
    family: str, grams: Grams, order: int, depth: int = DEPTH
) -> dict[str, Callable[[], Kernel]]:
    """Return a constructor of each kernel of a family by its name, the simplest kernel first.

    All plain kernels have a unit diagonal, also inside compositions.

    Args:
        family: A key of ``published.FAMILIES``.
        grams: Gram matrices of the data set.
        order: Number of nodes of the longest walks.
        depth: Largest number of relabelings.
    """
    below, _, activation = family.partition("-")
    if below == "walk":
        plain = {f"n={n}": partial(_walks, grams, n) for n in range(1, order + 1)}
    elif below == "levels":
        orders = range(order, 1, -2)[::-1]
        plain = {
            f"n={n}, λ={lam:g}": partial(_levels, grams, n, lam) for n in orders for lam in DECAYS
        }
    else:
        plain = {f"L={level}": partial(_subtrees, grams, level) for level in range(1, depth + 1)}
    if not activation:
        return plain
    if activation == "inverse":
        return {name: partial(_composed, make, InversePolynomial()) for name, make in plain.items()}
    return {
        f"{name}, s={bandwidth:g}": partial(_composed, make, Gaussian(bandwidth))
        for name, make in plain.items()
        for bandwidth in BANDWIDTHS
    }


def _composed(make: Callable[[], Kernel], point_kernel: Any) -> Kernel:
    return make().activated(point_kernel)


def _walks(grams: Grams, order: int) -> Kernel:
    return Stored(grams.walks(order)).cosine()


def _levels(grams: Grams, order: int, lam: float) -> Kernel:
    levels = [Stored(grams.walks(k), lam ** (k - 1)) for k in range(1, order + 1)]
    return reduce(operator.add, levels[1:], levels[0]).cosine()


def _subtrees(grams: Grams, depth: int) -> Kernel:
    return Stored(grams.subtrees(depth)).cosine()
