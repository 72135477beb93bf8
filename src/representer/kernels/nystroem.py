"""Nyström features, an approximation with a few landmarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError
from representer.kernels.gram_blocks import compute_blocks
from representer.kernels.gram_transformer import KernelTransformer, as_array
from representer.kernels.kernel import Kernel
from representer.numbers import is_integer
from representer.requirements import check_integer

SMALLEST = 1e-12  # eigenvalues below this fraction of the largest are rounding errors


class Nystroem(KernelTransformer):
    r"""Transforms objects to vectors whose inner products approximate a kernel.

    .. math::
        z(x) = K_{mm}^{-1/2}\, k(m, x), \qquad \langle z(x), z(y) \rangle \approx k(x, y)

    with m landmarks drawn from the objects of ``fit``; exact if x or y is a landmark. The cost is
    linear in the number of objects. With ``block``, so many objects at a time are compared with the
    landmarks, each block on one thread of the processes of ``joblib.parallel_config``; the features
    have the same bits for any number of processes.

    Args:
        kernel: The kernel; it is fitted if it must be, as by :class:`GramTransformer`.
        n_components: Number of landmarks; all objects if there are fewer.
        random_state: Seed of the draw.
        block: Number of objects in a block; None for all at once in this process.
        n_jobs: Number of processes that compute blocks, as in joblib.

    Attributes:
        components_: The landmarks.
        component_indices_: Their indices among the objects of ``fit``.
        kernel_: The fitted kernel.
        normalization_: The inverse root of their Gram matrix.

    References:
        Williams and Seeger, Using the Nyström Method to Speed Up Kernel Machines, NeurIPS 2000.
    """

    def __init__(
        self,
        kernel: Kernel,
        n_components: int = 100,
        random_state: int | None = None,
        block: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.block = block
        self.n_jobs = n_jobs

    def fit(self, X: Iterable[Any], y: Any = None) -> Nystroem:
        """Draw the landmarks."""
        check_integer("n_components", self.n_components)
        objects = self._objects(X, reset=True)
        if not len(objects):
            raise ArgumentError("X", [], "at least one object")
        order = check_random_state(self.random_state).permutation(len(objects))
        self.component_indices_ = order[: self.n_components]
        if isinstance(objects, list):
            self.components_ = [objects[i] for i in self.component_indices_]
        else:
            self.components_ = objects[self.component_indices_]
        self._fit_kernel(objects)
        values, vectors = np.linalg.eigh(as_array(self.kernel_(self.components_)))
        kept = values > SMALLEST * max(values[-1], np.finfo(float).tiny)
        roots = np.where(kept, values, 1.0) ** -0.5 * kept
        self.normalization_ = (vectors * roots) @ vectors.T
        self._n_features_out = len(self.normalization_)
        return self

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Return the features ``(N, number of landmarks)``."""
        check_is_fitted(self)
        objects, block = self._objects(X, reset=False), self.block
        if block is None:
            return as_array(self.kernel_(objects, self.components_)) @ self.normalization_
        if not is_integer(block, 1):
            raise ArgumentError("block", block, "a positive integer or None")
        features = np.empty((len(objects), len(self.normalization_)))
        blocks = compute_blocks(
            self.kernel_,
            range(0, len(objects), block),
            lambda i: (objects[i : i + block], self.components_),
            self.n_jobs,
        )
        for i, values in blocks:
            features[i : i + block] = values @ self.normalization_
        return features
