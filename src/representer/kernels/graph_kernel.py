"""The base class of graph kernels, and checks of their arguments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.kernels.graphs import Graph, read_graphs
from representer.kernels.kernel import Kernel, Objects, value_of
from representer.kernels.local_kernels import Activate
from representer.kernels.mercer import mercer_violation
from representer.kernels.point_kernels import PointKernel

BASES = ("linear", "delta")


class GraphKernel(Kernel):
    """Base class of kernels of two graphs, computed in float64."""

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares."""
        return "graphs"

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        x = read_graphs(X)
        y = None if Y is None else read_graphs(Y, "Y")
        if not x.items or (y is not None and not y.items):
            known = x if y is None or x.items else y
            shape = len(x.items), len((y or x).items)
            return self._values(known, lambda: torch.zeros(shape, dtype=torch.float64))
        return self._values(x, lambda: self._gram(x.items, None if y is None else y.items))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each graph."""
        self._check()
        x = read_graphs(X)
        none = torch.zeros(0, dtype=torch.float64)
        return self._values(x, lambda: self._diag(x.items) if x.items else none)

    @abstractmethod
    def _check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""

    @abstractmethod
    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        """Return the Gram matrix, float64."""

    @abstractmethod
    def _diag(self, X: Sequence[Graph]) -> Tensor:
        """Return k(x, x) of each graph, float64."""


def check_walks(decay: Any, combine: Any, base: Any, edges: Any) -> None:
    """Check the arguments common to all walk kernels.

    Raises:
        ArgumentError: If one of them is invalid.
    """
    if not 0 <= value_of(decay) < float("inf"):
        raise ArgumentError("decay", decay, "a non-negative number")
    if combine not in ("multiply", "add"):
        raise ArgumentError("combine", combine, "'multiply' or 'add'")
    if not isinstance(base, PointKernel) and base not in BASES:
        raise ArgumentError("base", base, "'linear', 'delta' or a kernel of vectors")
    if not isinstance(edges, bool):
        raise ArgumentError("edges", edges, "True or False")


def activation_of(name: str, activation: PointKernel | str | None) -> Activate | None:
    """Return K_sigma as a function of K(v, v'), K(v, v) and K(v', v').

    Args:
        name: The name of the argument, for messages.
        activation: A point kernel, or the name of a Mercer q of ``NONLINEARITIES``, for which
            K_sigma is q(K).

    Raises:
        ArgumentError: If it is neither.
    """
    if activation is None:
        return None
    if isinstance(activation, PointKernel):
        activation._check()
        return activation.of_products
    if not isinstance(activation, str):
        raise ArgumentError(name, activation, "a kernel of vectors, or the name of a q")
    q = nonlinearity(activation, name)
    violation = mercer_violation(activation)
    if violation:
        expected = "a q with a power series without negative coefficients, or a kernel of vectors"
        raise ArgumentError(name, activation, expected, hint=f"{violation}.")
    return lambda inner, xx, yy: q.value(inner)


def compare_nodes(base: str | PointKernel, x: Tensor, y: Tensor) -> Tensor:
    """Return the base kernel of all pairs of nodes ``(N, N')``."""
    if not isinstance(base, PointKernel):
        return x @ y.mT
    if not len(x) * len(y):
        return x.new_zeros(len(x), len(y))
    values = base(x, y)
    assert isinstance(values, Tensor)
    return values
