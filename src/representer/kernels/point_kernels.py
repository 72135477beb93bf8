"""Kernels of two vectors, as functions of their inner products.

Each depends only on <x, y>, <x, x> and <y, y>, so it also applies to two points in the feature
space of another kernel (``kernel.activated(...)``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.kernels.kernel import Kernel, Objects, takes_rows, value_of
from representer.kernels.sequences import read_vectors


class PointKernel(Kernel):
    r"""A kernel of vectors, a function :math:`f(\langle x, y \rangle, |x|^2, |y|^2)` of products.

    Shape:
        - X ``(N, d)`` and Y ``(M, d)``, tensors or arrays
        - returns ``(N, M)``: a differentiable tensor for tensors, else a float64 array
    """

    @property
    def objects(self) -> Objects:
        return "vectors"

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        self.check()
        x = read_vectors(X)
        y = x if Y is None else read_vectors(Y, "Y", like=x)
        (a,), (b,) = x.items, y.items
        squares = a.square().sum(-1)[:, None], b.square().sum(-1)
        return self._values(x, lambda: self.of_products(a @ b.mT, *squares))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        self.check()
        x = read_vectors(X)
        squares = x.items[0].square().sum(-1)
        return self._values(x, lambda: self.of_products(squares, squares, squares))

    @abstractmethod
    def of_products(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        """Return k(x, y) from <x, y>, <x, x> and <y, y>, which broadcast."""

    def check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""


class Linear(PointKernel):
    r"""The inner product, :math:`k(x, y) = \langle x, y \rangle`."""

    def of_products(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        """Return <x, y>."""
        return inner


class Polynomial(PointKernel):
    r"""All monomials up to a degree, :math:`k(x, y) = (s \langle x, y \rangle + b)^p`.

    Args:
        degree: p.
        offset: b, non-negative; with 0, only monomials of degree p remain.
        scale: s, positive.
    """

    def __init__(self, degree: int = 2, offset: float = 1.0, scale: float = 1.0) -> None:
        self.degree = degree
        self.offset = offset
        self.scale = scale
        self.check()

    def of_products(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        """Return (s <x, y> + b)^p."""
        return (self.scale * inner + self.offset) ** self.degree

    def check(self) -> None:
        check_integer("degree", self.degree)
        if not value_of(self.offset) >= 0:
            raise ArgumentError("offset", self.offset, "a non-negative number")
        if not value_of(self.scale) > 0:
            raise ArgumentError("scale", self.scale, "a positive number")


class Gaussian(PointKernel):
    r"""The Gaussian kernel, :math:`k(x, y) = e^{-\lVert x - y \rVert^2 / 2 s^2}`.

    Args:
        bandwidth: s, positive.
    """

    def __init__(self, bandwidth: float = 1.0) -> None:
        self.bandwidth = bandwidth
        self.check()

    def of_products(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        """Return e^(-(<x, x> + <y, y> - 2 <x, y>) / 2 s^2), at most 1."""
        exponent = (inner - (xx / 2 + yy / 2)).clamp(max=0)  # positive only by rounding errors
        return torch.exp(exponent / self.bandwidth**2)

    def check(self) -> None:
        if not value_of(self.bandwidth) > 0:
            raise ArgumentError("bandwidth", self.bandwidth, "a positive number")


class InversePolynomial(PointKernel):
    r"""The sum of all powers, :math:`k(x, y) = 1 / (2 - \langle x, y \rangle)`.

    Its space contains the activations of Lemma 1: polynomials, and, for references of small norm,
    functions such as the sigmoid. It is a kernel only for :math:`\langle x, y \rangle < 2`.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        Lemma 1.
    """

    def of_products(self, inner: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
        """Return 1 / (2 - <x, y>).

        Raises:
            ArgumentError: If <x, y> or the squared norm of a vector reaches 2.
        """
        if torch.compiler.is_compiling():  # numbers are not known then
            is_defined = torch.maximum(inner, torch.maximum(xx, yy)) < 2
            return torch.where(is_defined, 1 / (2 - inner), torch.nan)
        for products in (inner, xx, yy):
            largest = float(products.detach().max()) if products.numel() else 0.0
            if largest >= 2:
                hint = "Scale the inputs, or use .cosine() of the inner kernel."
                raise ArgumentError("<x, y>", largest, "below 2 for 1/(2 - <x, y>)", hint=hint)
        return 1 / (2 - inner)
