"""The abstract base class of kernels."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor

from representer.checks import SuggestsArguments, is_number
from representer.errors import ArgumentError, KindError, MissingExtraError
from representer.ops.common import can_be_read

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingExtraError("representer.kernels", "scikit-learn", "kernels") from error

if TYPE_CHECKING:
    from representer.kernels.composition import Activated, Cosine, Power, Product, Scaled, Sum
    from representer.kernels.point_kernels import PointKernel

Objects = Literal["sequences", "vectors", "graphs", "trees", "others"]
References = Literal["shared", "own"]


Values = Tensor | np.ndarray
_Call = Callable[..., Any]


def takes_rows(call: _Call) -> _Call:
    """Let ``k(x, y)`` of two rows of an array return a number.

    scikit-learn calls a kernel so for each pair of rows, as in ``KernelPCA(kernel=k)``.
    ``GramTransformer`` computes all pairs at once, and takes lists of objects.
    """

    @functools.wraps(call)
    def wrapped(self: Kernel, X: Any, Y: Any = None) -> Any:
        if _is_row(X) and _is_row(Y):
            return float(call(self, self._of_row(X), self._of_row(Y))[0, 0])
        return call(self, X, Y)

    return wrapped


def _is_row(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "biuf"


class Kernel(SuggestsArguments, BaseEstimator, ABC):
    """A function of two objects, called as ``k(X, Y)``, with the parameters of an estimator.

    A subclass stores its constructor's arguments as attributes of the same names, as required by
    ``get_params``, ``set_params`` and ``sklearn.base.clone``; ``set_params`` bypasses the
    constructor, so arguments are checked at every call.
    """

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares."""
        return "sequences"

    @abstractmethod
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix ``(len(X), len(Y))``, of X with itself if Y is None."""

    @abstractmethod
    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each object ``(len(X),)``."""

    __array_ufunc__ = None  # so that a number of NumPy times a kernel is a kernel, too

    def __add__(self, other: Any) -> Sum | Self:
        from representer.kernels.composition import Sum

        if is_number(other):
            if other == 0:  # the start of ``sum``
                return self
            hint = f"kernel.activated(Polynomial(1, {other})) adds a constant."
            raise KindError("the other summand", f"{other}", "a kernel", hint=hint)
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: Any) -> Product | Scaled:
        from representer.kernels.composition import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        is_factor = isinstance(other, (Tensor, bool)) or is_number(other)
        return Scaled(self, cast(float, other)) if is_factor else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, degree: int) -> Power:
        from representer.kernels.composition import Power

        return Power(self, degree)

    def network(
        self, input_size: int, hidden_size: int, *, reference: Any = None,
        references: References = "shared", fused: bool = True, **options: Any,
    ) -> Any:  # fmt: skip
        """Return a trainable network whose units evaluate this kernel against learned references.

        ``network.evaluate(X)[b, i]`` is ``network.kernel([X[b]], network.reference_objects())[0,
        i]``. A kernel that a layer of ``representer.nn`` evaluates has that layer as its network:
        ``StringKernelRNN``, ``RKM``, ``RandomWalkKernelNN`` or ``WLKernelNN``; any other has a
        ``KernelNetwork``.

        Args:
            input_size: d, features of a token, node or vector.
            hidden_size: H, number of references.
            reference: Shape of a reference: its number of tokens, or of nodes of a path, or a PyG
                ``Data`` with the edges of a graph; by default, the shortest whose kernel is not
                identically 0.
            references: ``"shared"`` by all kernels of a composition; or ``"own"`` ones for each,
                so that a unit is a function in the space of the composition, but not the kernel
                with an object.
            fused: Compute parts that have a recurrence by it. Otherwise, all are computed as the
                exact kernel, with the same values.
            options: Other arguments of the layer; ``device``, ``dtype`` and ``edge_dim`` (features
                of an edge, for graph kernels that compare edges) of a ``KernelNetwork``.

        Raises:
            ArgumentError: If the kernel has no network, as `no_network` explains, or an argument
                is invalid or contradicts the kernel.
        """
        from representer import duality

        self.check()
        shape = {"reference": reference, "references": references, "fused": fused}
        return duality.network_of(self, input_size, hidden_size, **shape, **options)

    def no_network(self) -> str:
        """Return why the kernel is not differentiable in a reference, or "" if it is."""
        return next(filter(None, (kernel.no_network() for kernel in self.inner_kernels())), "")

    def shortest_reference(self) -> int:
        """Return the length of the shortest reference whose kernel is not identically 0.

        For sequences, it is the number of tokens, for graphs that of the nodes of a path.
        """
        return max([1, *(kernel.shortest_reference() for kernel in self.inner_kernels())])

    def inner_kernels(self) -> list[Kernel]:
        """Return the kernels in this one that compare the same objects."""
        return []

    @property
    def repeats(self) -> bool:
        """True if the objects of a given Y are references, since ``repeat`` is True in it."""
        return getattr(self, "repeat", False) or any(k.repeats for k in self.inner_kernels())

    def repeating(self) -> Self:
        """Return this kernel with ``repeat=True``, for one that has this argument."""
        repeating: Any = copy.copy(self)
        return repeating.set_params(repeat=True)

    def comparing(self) -> Kernel:
        """Return this kernel with ``repeat=False`` in all of it, so that Y are objects, too."""
        params: dict[str, Any] = self.get_params()
        repeated = [name for name, value in params.items() if name.endswith("repeat") and value]
        if not repeated:
            return self
        from representer.kernels.composition import with_values

        return with_values(self, dict.fromkeys(repeated, False))

    def check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""

    def _values(self, x: Any, compute: Callable[[], Tensor]) -> Values:
        """Return computed values as a tensor, or as an array if the objects are not tensors.

        A tensor has gradients. It is returned for all objects if a parameter requires one.

        Args:
            x: The objects, with ``from_tensors``.
            compute: Returns the values.
        """
        is_tensor = x.from_tensors or self.has_gradient
        with torch.set_grad_enabled(is_tensor and torch.is_grad_enabled()):
            values = compute()
        return values if is_tensor else values.detach().numpy()

    @property
    def has_gradient(self) -> bool:
        """True if a parameter, of this kernel or of one in it, requires a gradient."""
        return any(map(_has_gradient, vars(self).values()))

    def _of_row(self, row: np.ndarray) -> Any:
        """Return a row of an array, the features of a vector or of a sequence, as a list of one."""
        return [row[:, None]] if self.objects == "sequences" else row[None]

    def activated(self, point_kernel: PointKernel) -> Activated:
        """Return the :class:`Activated` kernel, ``point_kernel`` in the RKHS of this one."""
        from representer.kernels.composition import Activated

        return Activated(self, point_kernel)

    def cosine(self) -> Cosine:
        """Return this kernel scaled to a unit diagonal."""
        from representer.kernels.composition import Cosine

        return Cosine(self)


def _has_gradient(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_gradient, value))
    if isinstance(value, Kernel):
        return value.has_gradient
    return isinstance(value, Tensor) and value.requires_grad


class OwnReference(tuple[Any, ...]):
    """A reference of a composition with one reference for each of its kernels.

    Of a kernel that repeats or embeds its reference, it has one entry.
    """

    @staticmethod
    def inner(Y: Any) -> tuple[Any, bool]:
        """Return the references that are repeated or not embedded, and True; or Y and False."""
        if isinstance(Y, list) and Y and isinstance(Y[0], OwnReference):
            return [reference[0] for reference in Y], True
        return Y, False


def is_fitted(kernel: Any) -> bool:
    """Return True unless the kernel must be fitted first, or one in it."""
    if not hasattr(kernel, "fit"):
        return True
    try:
        check_is_fitted(kernel)
    except NotFittedError:
        return False
    return True


def check_kernel(kernel: Any, name: str = "kernel") -> None:
    """Check that an argument is a kernel."""
    if not isinstance(kernel, Kernel):
        raise KindError(name, repr(kernel), "a kernel of representer.kernels")


def value_of(number: Any) -> Any:
    """Return a number or the value of a tensor without dimensions; NaN for anything else.

    Of a tensor that cannot be read, as in a compiled program, it is 1, which every check lets pass.
    """
    if isinstance(number, Tensor) and number.dim() == 0:
        return number.detach() if can_be_read(number, may_wait=True) else 1.0
    is_number = isinstance(number, (int, float, np.integer, np.floating))
    return number if is_number and not isinstance(number, bool) else np.nan


class StandardizedKernel(Kernel):
    """A kernel of explicit features in several views, which `fit` standardizes.

    `fit` and `transform` take objects, or what `read` returned for them. A subclass has the
    attribute ``views``, sets ``means_`` and ``scales_`` in `fit`, and checks its arguments in
    `read`.
    """

    views: Any
    means_: np.ndarray
    scales_: np.ndarray

    @abstractmethod
    def read(self, X: Any) -> Any:
        """Return the features of objects before they are standardized, with ``views``."""

    @abstractmethod
    def fit(self, X: Any, targets: Any = None) -> Self:
        """Find the mean and the deviation of every feature; targets have no influence."""

    @abstractmethod
    def transform(self, X: Any) -> np.ndarray:
        """Return the standardized features ``(N, F)``."""

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        check_is_fitted(self)
        left = self.transform(X)
        return left @ (left if Y is None else self.transform(Y)).T

    def diag(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return (self.transform(X) ** 2).sum(axis=1)

    def fit_transform(self, X: Any, targets: Any = None) -> np.ndarray:
        """Return the features of the objects that the kernel is fitted to, see `fit`."""
        features = self._before_fit(X)
        return self.fit(features).transform(features)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.means_)

    def _before_fit(self, X: Any) -> Any:
        return self._features(X)

    def _features(self, X: Any) -> Any:
        return X if hasattr(X, "views") else self.read(X)

    def _standardized(self, features: np.ndarray) -> np.ndarray:
        features -= self.means_
        features /= self.scales_
        return features

    def _set_moments(self, arrays: Mapping[str, np.ndarray], width: int) -> Self:
        self.means_, self.scales_ = arrays["means"], arrays["scales"]
        if not self.means_.shape == self.scales_.shape == (width,) or not (self.scales_ > 0).all():
            raise ValueError(f"means of {self.means_.shape} features; expected {width}")
        return self

    def _check_views(self, names: tuple[str, ...]) -> None:
        if not self.views or len({*self.views} & {*names}) < len(self.views):
            raise ArgumentError("views", self.views, f"one or both of {', '.join(names)}")
