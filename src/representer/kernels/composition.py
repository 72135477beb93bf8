"""Compositions of kernels: sums, products, activation and normalization."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from representer.errors import KindError
from representer.kernels.kernel import (
    Kernel,
    Objects,
    Values,
    check_kernel,
    is_fitted,
    takes_rows,
)
from representer.kernels.point_kernels import PointKernel


class _Composition(Kernel):
    """A kernel of kernels of the same objects."""

    def fit(self, X: Iterable[Any]) -> Self:
        """Fit the kernels in it that learn from objects, such as a :class:`TextKernel`."""
        X = _reusable(X)
        for kernel in self._kernels():
            if hasattr(kernel, "fit"):
                kernel.fit(X)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return True unless a kernel in it must be fitted first."""
        return all(map(is_fitted, self._kernels()))

    def _kernels(self) -> list[Any]:
        """Return the kernels in it that compare the same objects."""
        own = self.get_params(deep=False)
        return [own[name] for name in ("k1", "k2", "kernel") if name in own]


class _Pair(_Composition):
    """Two kernels, combined entry by entry."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2
        check_kernel(k1, "k1")
        check_kernel(k2, "k2")

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that both kernels compare."""
        return self.k1.objects

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        """Return the Gram matrix of X with Y, or of X with itself."""
        X, Y = _reusable(X), _reusable(Y)
        return self._join(*_alike(self.k1(X, Y), self.k2(X, Y)))

    def _of_row(self, row: np.ndarray) -> Any:
        return self.k1._of_row(row)

    def diag(self, X: Iterable[Any]) -> Values:
        """Return k(x, x) of each object."""
        X = _reusable(X)
        return self._join(*_alike(self.k1.diag(X), self.k2.diag(X)))

    @abstractmethod
    def _join(self, first: Any, second: Any) -> Values:
        """Combine the values of both kernels."""


class Sum(_Pair):
    """The sum of two kernels, written ``k1 + k2``: it concatenates their features.

    Args:
        k1: A kernel.
        k2: A kernel of the same objects.
    """

    def _join(self, first: Any, second: Any) -> Values:
        return first + second


class Product(_Pair):
    """The product of two kernels, written ``k1 * k2``: the products of all pairs of their features.

    Args:
        k1: A kernel.
        k2: A kernel of the same objects.
    """

    def _join(self, first: Any, second: Any) -> Values:
        return first * second


class Activated(_Composition):
    r"""A point kernel in the feature space of another kernel, :math:`K_\sigma(\phi(x), \phi(y))`.

    Written ``k.activated(point_kernel)``. If the space of :math:`K_\sigma` contains an
    activation σ, as that of :class:`InversePolynomial` does for Lemma 1, the space of this kernel
    contains the outputs of the kernel's network with activation σ.

    Args:
        kernel: The inner kernel.
        point_kernel: K_σ, a function of inner products.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        Lemma 1, Proposition 1.
    """

    def __init__(self, kernel: Kernel, point_kernel: PointKernel) -> None:
        self.kernel = kernel
        check_kernel(kernel)
        self.point_kernel = point_kernel
        self._check()

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the inner kernel compares."""
        return self.kernel.objects

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        """Return the Gram matrix of X with Y, or of X with itself."""
        self._check()
        X, Y = _reusable(X), _reusable(Y)
        inner = self.kernel(X, Y)
        if Y is None:
            xx = yy = _diagonal(inner)
        else:
            xx, yy = self.kernel.diag(X), self.kernel.diag(Y)
        return self._apply(inner, xx[:, None], yy)

    def _of_row(self, row: np.ndarray) -> Any:
        return self.kernel._of_row(row)

    def diag(self, X: Iterable[Any]) -> Values:
        """Return k(x, x) of each object."""
        self._check()
        xx = self.kernel.diag(X)
        return self._apply(xx, xx, xx)

    def _apply(self, *products: Values) -> Values:
        K = self.point_kernel.of_products(*map(torch.as_tensor, products))
        return K if isinstance(products[0], Tensor) else K.numpy()

    def _check(self) -> None:
        if not isinstance(self.point_kernel, PointKernel):
            expected = "a kernel of vectors, such as kernels.InversePolynomial()"
            raise KindError("point_kernel", repr(self.point_kernel), expected)
        self.point_kernel._check()


class Cosine(_Composition):
    r"""A kernel scaled to a unit diagonal, :math:`k(x, y) / \sqrt{k(x, x)\, k(y, y)}`.

    Written ``k.cosine()``. Where k(x, x) is 0, so is the result.

    Args:
        kernel: The inner kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        check_kernel(kernel)

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the inner kernel compares."""
        return self.kernel.objects

    @takes_rows
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        """Return the Gram matrix of X with Y, or of X with itself."""
        X, Y = _reusable(X), _reusable(Y)
        K = self.kernel(X, Y)
        if Y is None:
            xx = yy = torch.as_tensor(_diagonal(K))
        else:
            xx, yy = (torch.as_tensor(self.kernel.diag(Z)) for Z in (X, Y))
        scaled = torch.as_tensor(K) * _inverse_root(xx)[:, None] * _inverse_root(yy)
        return scaled if isinstance(K, Tensor) else scaled.numpy()

    def _of_row(self, row: np.ndarray) -> Any:
        return self.kernel._of_row(row)

    def diag(self, X: Iterable[Any]) -> Values:
        """Return 1 of each object, or 0 where the inner kernel is 0."""
        xx = self.kernel.diag(X)
        ones = (torch.as_tensor(xx) > 0).to(torch.as_tensor(xx).dtype)
        return ones if isinstance(xx, Tensor) else ones.numpy()


def _alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two values as tensors if one is a tensor, since a parameter has a gradient."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return torch.as_tensor(first), torch.as_tensor(second)
    return first, second


def _inverse_root(squares: Tensor) -> Tensor:
    is_zero = squares <= 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, squares).rsqrt())


def _diagonal(K: Values) -> Values:
    return K.diagonal() if isinstance(K, Tensor) else K.diagonal().copy()  # numpy returns a view


def _reusable(X: Any) -> Any:
    """Return objects that can be iterated over more than once."""
    return list(X) if isinstance(X, Iterator) else X
