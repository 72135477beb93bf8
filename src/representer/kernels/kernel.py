"""The abstract base class of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from representer.errors import MissingExtraError

try:
    from sklearn.base import BaseEstimator
except ImportError as error:
    raise MissingExtraError("representer.kernels", "scikit-learn", "kernels") from error

if TYPE_CHECKING:
    from representer.kernels.composition import Activated, Cosine, Product, Sum
    from representer.kernels.point_kernels import PointKernel

Objects = Literal["sequences", "vectors", "graphs"]


class Kernel(BaseEstimator, ABC):
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

    def __add__(self, other: Kernel) -> Sum:
        from representer.kernels.composition import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        from representer.kernels.composition import Product

        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    def _network(self, features: int, references: int, options: dict[str, Any]) -> Any:
        """Return the layer whose units evaluate this kernel, from `representer.duality`."""
        from representer import duality

        return duality.network_of(self, features, references, options)

    def activated(self, point_kernel: PointKernel) -> Activated:
        """Return the :class:`Activated` kernel, ``point_kernel`` in the RKHS of this one."""
        from representer.kernels.composition import Activated

        return Activated(self, point_kernel)

    def cosine(self) -> Cosine:
        """Return this kernel scaled to a unit diagonal."""
        from representer.kernels.composition import Cosine

        return Cosine(self)
