"""Kernels as scikit-learn transformers, from objects to rows of the Gram matrix."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from representer.kernels.kernel import Kernel, check_kernel, is_fitted
from representer.kernels.tokens import require_several


class KernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the transformers: input validation, names of features, scikit-learn tags."""

    kernel: Kernel
    kernel_: Kernel

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.kernel.objects != "vectors":  # lists of sequences are not 2-D arrays
            tags.no_validation = True
            tags.input_tags.two_d_array = False
        return tags

    def _objects(self, X: Any, *, reset: bool) -> Any:
        """Convert the objects to the input of the kernel; scikit-learn validates vectors."""
        check_kernel(self.kernel)
        if self.kernel.objects == "vectors":
            return validate_data(self, X, reset=reset, dtype=np.float64)
        X = X.to_data_list() if hasattr(X, "to_data_list") else X  # a Batch of PyG
        require_several(X, "objects")
        return X if isinstance(X, (Tensor, np.ndarray)) else list(X)

    def _fit_kernel(self, objects: Any) -> None:
        """Fit a copy of the kernel if it, or a kernel in it, must be fitted and is not."""
        self.kernel_ = self.kernel
        if not is_fitted(self.kernel):
            made: Any = copy.deepcopy(self.kernel)
            self.kernel_ = made.fit(objects)


class GramTransformer(KernelTransformer):
    """Transforms objects to their kernel values with the objects of ``fit``.

    ``make_pipeline(GramTransformer(k), SVC(kernel="precomputed"))`` is a classifier of the objects
    of k; in a grid search, the kernel's arguments are ``gramtransformer__kernel__order`` etc.

    Args:
        kernel: The kernel. One that must be fitted, such as :class:`TextKernel`, is fitted to the
            objects of ``fit``, unless it is fitted already; scikit-learn's clones never are.

    Attributes:
        X_fit_: The objects of ``fit``.
        kernel_: The fitted kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, X: Iterable[Any], y: Any = None) -> GramTransformer:
        """Store the objects."""
        self.X_fit_ = self._objects(X, reset=True)
        self._n_features_out = len(self.X_fit_)
        self._fit_kernel(self.X_fit_)
        return self

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Return the kernel values with the objects of ``fit`` ``(N, M)``."""
        check_is_fitted(self)
        return as_array(self.kernel_(self._objects(X, reset=False), self.X_fit_))

    def fit_transform(self, X: Iterable[Any], y: Any = None, **options: Any) -> np.ndarray:
        """Store the objects and return their Gram matrix, of which one half is computed."""
        self.fit(X, y)
        return as_array(self.kernel_(self.X_fit_))


def as_array(values: Tensor | np.ndarray) -> np.ndarray:
    """Return values of a kernel as a float64 array."""
    if isinstance(values, Tensor):
        return values.detach().cpu().double().numpy()
    return values
