"""The kernels of graphs that are compared: walks, summed levels, WL, and what is composed of them.

A family is a set of kernels of which the inner folds choose one. All of them are made of few Gram
matrices, so that these are computed once; see `Stored`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
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

DECAYS = (0.1, 0.3, 1.0)
BANDWIDTHS = (0.1, 0.3, 1.0)
DEPTH = 6


class Stored(Kernel):
    """A kernel of graphs that are given by their numbers, whose values are known.

    It stands for a kernel of the graphs themselves in sums and compositions.

    Args:
        values: The Gram matrix of all graphs.
        scale: Multiplies it.
    """

    def __init__(self, values: np.ndarray, scale: float = 1.0) -> None:
        self.values = values
        self.scale = scale

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> np.ndarray:
        """Return the values of X with Y, or of X with itself."""
        rows = list(X)
        return self.scale * self.values[np.ix_(rows, rows if Y is None else list(Y))]

    def diag(self, X: Iterable[Any]) -> np.ndarray:
        """Return the values of each graph with itself."""
        return self.scale * self.values.diagonal()[list(X)]


class Grams:
    """The Gram matrices of a data set, each computed when it is first needed and kept in a file.

    Args:
        folder: Of the files.
        graphs: With the label of each node as ``x`` of one column.
    """

    def __init__(self, folder: Path, graphs: Sequence[Any]) -> None:
        self._folder, self._graphs = folder, graphs

    def walks(self, order: int) -> np.ndarray:
        """Return the Gram matrix of walks of so many nodes."""
        return self._get(f"walks-{order}", RandomWalkKernel(order, base="delta"))

    def subtrees(self, depth: int) -> np.ndarray:
        """Return the Gram matrix of relabelings 0, 1, … depth."""
        return self._get(f"subtrees-{depth}", WeisfeilerLehmanKernel(depth=depth))

    def _get(self, name: str, kernel: Kernel) -> np.ndarray:
        import io

        from representer.tasks.storage import atomic

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
    """Return what makes each kernel of a family, by its name, the simplest first.

    Every kernel that is not activated, and each that is before it is, has a unit diagonal.

    Args:
        family: A key of ``graph_sets.FAMILIES``.
        grams: Of the data set.
        order: Nodes of the longest walks.
        depth: Of the deepest relabeling.
    """
    below, _, activation = family.partition("-")
    plain = _subtrees(grams, depth) if below == "wl" else _WALKS[below](grams, order)
    if not activation:
        return plain
    if activation == "inverse":
        return {name: _composed(make, InversePolynomial()) for name, make in plain.items()}
    return {
        f"{name}, s={bandwidth:g}": _composed(make, Gaussian(bandwidth))
        for name, make in plain.items()
        for bandwidth in BANDWIDTHS
    }


def _composed(make: Callable[[], Kernel], point_kernel: Any) -> Callable[[], Kernel]:
    return lambda: make().activated(point_kernel)


def _walks(grams: Grams, order: int) -> dict[str, Callable[[], Kernel]]:
    def make(n: int) -> Callable[[], Kernel]:
        return lambda: Stored(grams.walks(n)).cosine()

    return {f"n={n}": make(n) for n in range(1, order + 1)}


def _levels(grams: Grams, order: int) -> dict[str, Callable[[], Kernel]]:
    def make(n: int, lam: float) -> Callable[[], Kernel]:
        def summed() -> Kernel:
            levels = [Stored(grams.walks(k), lam ** (k - 1)) for k in range(1, n + 1)]
            return reduce(lambda first, second: first + second, levels).cosine()

        return summed

    orders = range(order, 1, -2)[::-1]
    return {f"n={n}, λ={lam:g}": make(n, lam) for n in orders for lam in DECAYS}


def _subtrees(grams: Grams, deepest: int) -> dict[str, Callable[[], Kernel]]:
    def make(depth: int) -> Callable[[], Kernel]:
        return lambda: Stored(grams.subtrees(depth)).cosine()

    return {f"L={depth}": make(depth) for depth in range(1, deepest + 1)}


_WALKS = {"walk": _walks, "levels": _levels}
