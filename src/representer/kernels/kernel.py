"""The abstract kernel: a function of two objects, with the parameters of an estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from representer.errors import MissingExtraError

try:
    from sklearn.base import BaseEstimator
except ImportError as error:
    raise MissingExtraError("representer.kernels", "scikit-learn", "kernels") from error


class Kernel(BaseEstimator, ABC):
    """A kernel, called as ``k(X, Y)``.

    A subclass keeps its constructor's arguments as attributes of the same names, so that
    ``get_params``, ``set_params`` and ``sklearn.base.clone`` work; ``set_params`` does not pass
    through the constructor, so a kernel checks them again when it is called.
    """

    @abstractmethod
    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        """Return the Gram matrix ``(len(X), len(Y))``, of X with itself if there is no Y."""

    @abstractmethod
    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        """Return k(x, x) of each object ``(len(X),)``."""
