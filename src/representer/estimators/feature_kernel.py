"""The kernels that a kernel machine takes: those with features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from representer.estimators.linear_solution import Features, as_columns
from representer.estimators.targets import Column, Numbers

Rows = tuple[Any, NDArray[np.float64] | None]  # of training objects, and the basis of their space


class FeatureKernel(Protocol):
    """A kernel that has features, learned from training objects.

    Either their inner products are the kernel, or it has the method ``whitening``, as
    `SubtreeKernel` has: the matrix from features to such coordinates. For numbers, a machine on
    these is a Gaussian process, and ``noise_`` of the kernel is the variance of its noise.
    """

    def fit_transform(
        self, X: Sequence[Any], targets: NDArray[np.float64] | None = None
    ) -> Features:
        """Learn the features and return them ``(N, F)``.

        Targets ``(N, C)`` may weight them: indicators of classes, or a number.
        """
        ...

    def transform(self, X: Sequence[Any]) -> Features:
        """Return the features ``(N, F)``."""
        ...


def fit_kernel(
    kernel: FeatureKernel, target: Column, objects: Sequence[Any], values: NDArray[Any]
) -> Features:
    """Fit a kernel to objects and their targets, and return their features ``(N, F)``."""
    return kernel.fit_transform(objects, as_columns(target, values))


def is_process(kernel: Any, target: Column) -> bool:
    """Return True if a machine on the kernel is a Gaussian process."""
    return hasattr(kernel, "whitening") and isinstance(target, Numbers)


def compressed(kernel: Any, features: Features) -> Rows:
    """Return rows whose inner products are the kernel, and the basis of their coordinates.

    Args:
        kernel: The fitted kernel.
        features: Of its training objects ``(N, F)``.

    Returns:
        Rows ``(N, R)``, and the basis ``(R, F)``: other features times its transpose are their
        rows, and coefficients of rows times the basis are those of features. Explicit features that
        are sparse, or no more than N, are the rows themselves, without a basis.
    """
    if hasattr(kernel, "whitening"):
        whitening = kernel.whitening()
        return features @ whitening, whitening.T
    if not isinstance(features, np.ndarray) or features.shape[1] <= len(features):
        return features, None
    values, vectors = np.linalg.eigh(features @ features.T)
    is_kept = values > values[-1] * 1e-12  # the others are rounding errors
    lengths = np.sqrt(values[is_kept])
    return vectors[:, is_kept] * lengths, (vectors[:, is_kept] / lengths).T @ features
