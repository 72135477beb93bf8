"""Any kernel as the features of a kernel machine: Nyström's, of landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from representer.kernels.kernel import Kernel

ROUNDING = 1e-10  # of the largest eigenvalue: smaller ones are rounding errors of the Gram matrix


class KernelFeatures(BaseEstimator):
    r"""Features whose inner products are a kernel, :math:`\phi(x) = \Lambda^{-1/2} U^\top k_Z(x)`.

    :math:`K_{ZZ} = U \Lambda U^\top` is the Gram matrix of landmarks Z. They are the training
    objects, for which the inner products are exact, or `count` of them, drawn at random.

    Args:
        kernel: The kernel.
        count: Maximum number of landmarks.
    """

    def __init__(self, kernel: Kernel, count: int = 1000) -> None:
        self.kernel = kernel
        self.count = count

    def fit_transform(
        self, X: Sequence[Any], targets: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Learn the landmarks and return the features ``(N, F)``."""
        rows = range(len(X))
        if len(X) > self.count:
            drawn = np.random.default_rng(0).permutation(len(X))[: self.count]
            rows = sorted(drawn.tolist())
        self.landmarks_ = _unpacked(_packed([X[row] for row in rows]))
        gram = _array(self.kernel(self.landmarks_))
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        is_kept = values > max(values[-1] * ROUNDING, np.finfo(float).tiny)
        # in the layout that is saved, so that a loaded machine rounds alike
        self.whitening_ = np.ascontiguousarray(vectors[:, is_kept] / np.sqrt(values[is_kept]))
        return gram @ self.whitening_ if len(rows) == len(X) else self.transform(X)

    def transform(self, X: Sequence[Any]) -> NDArray[np.float64]:
        """Return the features ``(N, F)``."""
        return _array(self.kernel(list(X), self.landmarks_)) @ self.whitening_

    def landmark_features(self) -> NDArray[np.float64]:
        """Return the features of the landmarks ``(M, F)``."""
        return _array(self.kernel(self.landmarks_)) @ self.whitening_

    def coefficients(self, of_features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficient of each landmark ``(M,)`` from those of the features ``(F,)``."""
        return self.whitening_ @ of_features

    @property
    def width(self) -> int:
        """Number of features."""
        return self.whitening_.shape[1]

    def fitted(self) -> tuple[dict[str, tuple[str, ...]], dict[str, NDArray[Any]]]:
        """Return what is learned, as `restore` takes it."""
        return {}, {"whitening": self.whitening_, **_packed(self.landmarks_)}

    def restore(self, tokens: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what was learned.

        Raises:
            ValueError: The arrays do not fit together.
        """
        self.whitening_ = arrays["whitening"]
        self.landmarks_ = _unpacked(arrays)
        if len(self.landmarks_) != len(self.whitening_):
            raise ValueError(
                f"{len(self.landmarks_)} landmarks, {len(self.whitening_)} of whitening"
            )
        return self


# Objects as a few arrays: sequences as their tokens and lengths, graphs as those of each of their
# tensors.

_OF_GRAPHS = {"x": 0, "edge_index": 1, "edge_attr": 0}  # and the axis along which they are joined


def _packed(objects: Sequence[Any]) -> dict[str, NDArray[Any]]:
    if not hasattr(objects[0], "edge_index"):
        lengths = np.array([len(one) for one in objects])
        return {"tokens": np.concatenate([np.asarray(one) for one in objects]), "lengths": lengths}
    arrays = {}
    for name, axis in _OF_GRAPHS.items():
        own = [getattr(one, name) for one in objects]
        if own[0] is not None:
            arrays[name] = torch.cat(own, axis).numpy()
            arrays[f"{name}_lengths"] = np.array([part.shape[axis] for part in own])
    return arrays


def _unpacked(arrays: dict[str, NDArray[Any]]) -> list[Any]:
    """Return what `_packed` packed.

    Raises:
        ValueError: The arrays do not fit together.
    """
    if "tokens" in arrays:
        return _split(arrays["tokens"], arrays["lengths"], 0)
    from torch_geometric.data import Data

    parts = {
        name: _split(arrays[name], arrays[f"{name}_lengths"], axis)
        for name, axis in _OF_GRAPHS.items()
        if name in arrays
    }
    return [Data(**dict(zip(parts, own, strict=True))) for own in zip(*parts.values(), strict=True)]


def _split(array: NDArray[Any], lengths: NDArray[Any], axis: int) -> list[Tensor]:
    if lengths.sum() != array.shape[axis] or lengths.min(initial=0) < 0:
        raise ValueError(f"{array.shape[axis]} rows for lengths of {lengths.sum()}")
    return [*torch.from_numpy(array).split(lengths.tolist(), axis)]


def _array(values: Any) -> NDArray[np.float64]:
    return np.asarray(values.detach() if hasattr(values, "detach") else values, dtype=np.float64)
