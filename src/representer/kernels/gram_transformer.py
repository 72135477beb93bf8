"""Kernels in scikit-learn's pipelines: objects in, rows of the Gram matrix out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from representer.errors import KindError
from representer.kernels.kernel import Kernel


class KernelTransformer(TransformerMixin, BaseEstimator):
    """What the transformers share: which objects a kernel takes, and what scikit-learn may ask."""

    kernel: Kernel

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.kernel.objects != "vectors":  # lists of sequences: no table of numbers to check
            tags.no_validation = True
            tags.input_tags.two_d_array = False
        return tags

    def _objects(self, X: Any, *, reset: bool) -> Any:
        """Return what was given as the kernel takes it, checked by scikit-learn where it can be."""
        if not isinstance(self.kernel, Kernel):
            raise KindError("kernel", repr(self.kernel), "a kernel of representer.kernels")
        if self.kernel.objects == "vectors":
            return validate_data(self, X, reset=reset, dtype=np.float64)
        return X if isinstance(X, (str, Tensor, np.ndarray)) else list(X)


class GramTransformer(KernelTransformer):
    """Maps objects to their kernel with the objects that it was fitted on.

    ``make_pipeline(GramTransformer(k), SVC(kernel="precomputed"))`` is a classifier of whatever k
    compares; a grid search reaches the kernel's arguments as ``gramtransformer__kernel__order``.

    Args:
        kernel: The kernel.

    Attributes:
        X_fit_: The objects that it was fitted on.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, X: Iterable[Any], y: Any = None) -> GramTransformer:
        """Keep the objects."""
        self.X_fit_ = self._objects(X, reset=True)
        return self

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Return the kernel of each object with those of ``fit`` ``(N, M)``."""
        check_is_fitted(self)
        return as_array(self.kernel(self._objects(X, reset=False), self.X_fit_))

    def fit_transform(self, X: Iterable[Any], y: Any = None, **options: Any) -> np.ndarray:
        """Keep the objects and return their Gram matrix, of which a half is computed."""
        self.fit(X, y)
        return as_array(self.kernel(self.X_fit_))


def as_array(values: Tensor | np.ndarray) -> np.ndarray:
    """Return values of a kernel as a float64 array."""
    if isinstance(values, Tensor):
        return values.detach().cpu().double().numpy()
    return values
