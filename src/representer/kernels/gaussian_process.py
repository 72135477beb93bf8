"""Exact kernels as kernels of the Gaussian processes of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as of_processes
from torch import Tensor
from torch.autograd.functional import jvp

from representer.errors import ArgumentError
from representer.kernels.composition import Bounds, check_bounds, with_values
from representer.kernels.gram import as_array
from representer.kernels.kernel import Kernel

_ProcessBase: Any = of_processes.Kernel  # whose methods return None in the eyes of a type checker


class GaussianProcessKernel(of_processes.GenericKernelMixin, _ProcessBase):
    """A kernel for ``GaussianProcessRegressor`` and ``GaussianProcessClassifier``.

    Compose it with scikit-learn's kernels: ``ConstantKernel() * GaussianProcessKernel(k) +
    WhiteKernel()``. The numbers named in ``learn`` are hyperparameters, whose gradients are exact.

    Args:
        kernel: A kernel of `representer.kernels`, or scaled to a unit diagonal, ``k.cosine()``.
        objects: All objects, of training and of prediction; X then has their row numbers
            ``(N, 1)``. Without them, X is a list of strings, or an array.
        learn: Bounds of each number to learn, such as ``{"decay": (0.01, 0.99)}``, by the name that
            ``kernel.get_params()`` has.

    Raises:
        ArgumentError: A name in ``learn`` is unknown, or its value is out of its bounds.
        KindError: ``kernel`` is not a kernel.

    References:
        Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.1.
    """

    def __init__(
        self, kernel: Kernel, objects: Sequence[Any] | None = None, learn: Bounds | None = None
    ) -> None:
        self.kernel = kernel
        self.objects = objects
        self.learn = learn
        check_bounds(kernel, learn or {})

    @property
    def hyperparameters(self) -> list[of_processes.Hyperparameter]:
        """The learned numbers, in the order of ``learn``."""
        return [
            of_processes.Hyperparameter(name, "numeric", bounds)
            for name, bounds in (self.learn or {}).items()
        ]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments and, with ``deep``, the learned numbers."""
        mine = {"kernel": self.kernel, "objects": self.objects, "learn": self.learn}
        return mine | ({name: self._value(name) for name in self.learn or {}} if deep else {})

    def set_params(self, **params: Any) -> GaussianProcessKernel:
        """Set arguments or learned numbers."""
        mine = {name: params.pop(name) for name in ("kernel", "objects", "learn") if name in params}
        for name, value in mine.items():
            setattr(self, name, value)
        if params:
            self.kernel = with_values(self.kernel, {n: float(v) for n, v in params.items()})
        return self

    @property
    def theta(self) -> NDArray[np.float64]:
        """Logarithms of the learned numbers."""
        return np.log([self._value(name) for name in self.learn or {}])

    @theta.setter
    def theta(self, theta: NDArray[np.float64]) -> None:
        self.set_params(**dict(zip(self.learn or {}, np.exp(theta).tolist(), strict=True)))

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Logarithms of the bounds ``(P, 2)``."""
        return np.log(np.array([*(self.learn or {}).values()]).reshape(-1, 2))

    def __sklearn_clone__(self) -> GaussianProcessKernel:
        """Return a kernel of the same objects; a kernel that is fitted stays so."""
        return GaussianProcessKernel(self.kernel, self.objects, self.learn)

    def clone_with_theta(self, theta: NDArray[np.float64]) -> GaussianProcessKernel:
        """Return a kernel with other learned numbers; objects are shared."""
        copy = self.__sklearn_clone__()
        copy.theta = theta
        return copy

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the Gram matrix, and its gradient in theta ``(N, N, P)`` if it is wanted."""
        x, y = self._objects(X), None if Y is None else self._objects(Y)
        K = as_array(self.kernel.comparing()(x, y))
        if not eval_gradient:
            return K
        parts = []
        for name in self.learn or {}:

            def gram(log: Tensor, name: str = name) -> Tensor:
                value: Any = with_values(self.kernel, {name: log.exp()})(x)
                return value

            log = torch.tensor(self._value(name), dtype=torch.float64).log()
            _, tangent = jvp(gram, log, torch.ones_like(log))
            parts.append(as_array(tangent))  # type: ignore[arg-type]
        return K, np.stack(parts, axis=-1) if parts else np.zeros((*K.shape, 0))

    def diag(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x) of each object."""
        return as_array(self.kernel.diag(self._objects(X)))

    def is_stationary(self) -> bool:
        """Return False: objects have no differences."""
        return False

    def _objects(self, X: Any) -> Any:
        if self.objects is None:
            return X
        rows = np.rint(np.asarray(X, float)).reshape(-1).astype(int).tolist()
        if rows and not 0 <= min(rows) <= max(rows) < len(self.objects):
            got = f"{min(rows)} to {max(rows)}"
            raise ArgumentError("X", got, f"row numbers from 0 to {len(self.objects) - 1}")
        return [self.objects[row] for row in rows]

    def _value(self, name: str) -> float:
        values: Mapping[str, Any] = self.kernel.get_params()
        return float(values[name])
