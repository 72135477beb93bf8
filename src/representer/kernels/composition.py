"""Compositions of kernels: sums, products, activation and normalization."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.functional import nonlinearity
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


# A test for q of an inner product to be a Mercer kernel.
#
# q(<x, y>) is one in every dimension if q(z) = sum_k a_k z^k without negative a_k (Schoenberg
# 1942). Then the recurrent kernel of q is one, too, since each of its steps is q of an inner
# product.

DEGREE = 23  # truncation error below rounding at twice the largest radius, little amplification
RADII = (1 / 2, 1 / 8, 1 / 32)
ROUNDING = 1e-14


def mercer_violation(q: str | Callable[[Tensor], Tensor]) -> str:
    """Return the reason why q has no power series at 0 without negative coefficients, else "".

    For a callable, the series is computed from values near 0 in float64, so tiny coefficients and
    the values further away, such as those of a clamp, are not detected.

    Raises:
        ArgumentError: If the name is unknown, or a callable is not elementwise.
    """
    if isinstance(q, str):
        is_mercer = nonlinearity(q, "q").mercer
        return "" if is_mercer else f"{q} has no power series at 0 without negative coefficients"
    for radius in RADII:
        values = _values(q, radius)
        if not np.isfinite(values).all():
            continue
        scale = max(np.abs(values).max(), np.finfo(float).tiny)
        series = chebyshev.chebfit(_NODES, values, DEGREE)
        if np.abs(series[-3:]).max() > 1e2 * ROUNDING * scale:
            continue  # no power series converges on [-radius, radius]
        scaled = _TO_POWERS @ series  # a_k radius^k
        uncertainty = ROUNDING * scale * np.abs(_TO_POWERS).sum(1)
        worst = int(np.argmin(scaled + uncertainty))
        if scaled[worst] + uncertainty[worst] < 0:
            coefficient = scaled[worst] / radius**worst
            return f"the coefficient of z^{worst} in its power series at 0 is {coefficient:.3g}"
        return ""
    return f"no power series for it converges on |z| <= {RADII[-1]}"


def _values(q: Callable[[Tensor], Tensor], radius: float) -> np.ndarray:
    z = torch.from_numpy(radius * _NODES)
    with torch.no_grad():
        values = q(z)
    if not isinstance(values, Tensor) or values.shape != z.shape:
        raise ArgumentError("q", q, "an elementwise function of a tensor, or a name")
    return values.double().numpy()


def _to_powers() -> np.ndarray:
    """Return the coefficients of z^k in the Chebyshev polynomials, ``(k, polynomial)``."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for j, unit in enumerate(np.eye(DEGREE + 1)):
        powers = chebyshev.cheb2poly(unit)
        matrix[: len(powers), j] = powers
    return matrix


_NODES = chebyshev.chebpts1(DEGREE + 1)
_TO_POWERS = _to_powers()


# Numbers of a kernel that are learned by gradients, such as its decay.

Bounds = Mapping[str, tuple[float, float]]  # of each learned number, by the name of `get_params`


def check_bounds(kernel: Kernel, learn: Bounds) -> None:
    """Check the names and the bounds of learned numbers.

    Raises:
        KindError: ``kernel`` is not a kernel, or a parameter is not a number.
        ArgumentError: A name is unknown, or a value is not inside its bounds.
    """
    check_kernel(kernel)
    known = kernel.get_params()
    for name, (low, high) in learn.items():
        numbers = [key for key, value in known.items() if is_number(value)]
        if name not in known:
            raise ArgumentError("learn", name, f"one of {', '.join(numbers) or 'no number'}")
        if not is_number(known[name]):
            raise KindError(f"the parameter {name}", repr(known[name]), "a number")
        if not low < known[name] < high:
            raise ArgumentError(name, known[name], f"a number between {low:g} and {high:g}")


def is_number(value: Any) -> bool:
    """Return True for a real number that can be learned."""
    return isinstance(value, (float, np.floating)) or type(value) is int


def with_values(kernel: Kernel, values: Mapping[str, Tensor | float]) -> Kernel:
    """Return the kernel with other numbers; if one requires a gradient, it returns tensors."""
    made: Any = copy.deepcopy(kernel)  # a clone would not be fitted
    return made.set_params(**values)
