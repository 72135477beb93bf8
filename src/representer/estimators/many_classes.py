r"""A linear model of very many classes, in memory that grows with the classes, not with features.

A class of two or three objects has no use for a coefficient of every feature. Its scores lie in the
span of the classes' centroids, whose combinations are learned by ridge regression:

.. math:: s(x) = W\, C\, x + b

with C the centroids ``(M, F)``, sparse, and W their combinations ``(K, M)``. Each score is still a
sum over the features, so that explanations are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.base import clone
from torch.nn.functional import cross_entropy

from representer.estimators.targets import Classes, Column
from representer.kernels.text_kernel import unit_rows

MANY = 256  # classes from which a model of each feature and class takes too long
# fewer classes whose centroids are tried beside a model of each feature and class: at least so
# many, of no more objects each in the mean; with more objects, the centroids are never ahead
TRIED, OBJECTS = 10, 50
# the difference that selects centroids: the machines of the folds have fewer objects than the last
# one, by which centroids win
CLEARLY = 2.5
MOST_CENTROIDS = 4096  # of larger numbers of classes, those with the most objects
SHRINKAGE = 0.5  # the ridge; from 0.1 to 2 the accuracy hardly changes
LOGITS = tuple(2.0 ** (k / 2) for k in range(-2, 17))  # factors of the scores of least squares
RANKS = "", "_2", "_3", "_4", "_5"  # of the classes that are answered
ROWS = 1024  # objects whose products with the centroids are computed together
_PARTS = tuple(f"centroids.{name}" for name in ("data", "indices", "indptr"))


def has_many(target: Column) -> bool:
    """Return True for so many classes that their model is one of centroids."""
    return isinstance(target, Classes) and target.width >= MANY


def few_objects(target: Column, count: int) -> bool:
    """Return True for so few objects of each of several classes that centroids are tried."""
    return isinstance(target, Classes) and TRIED <= target.width >= count / OBJECTS


@dataclass(frozen=True)
class CentroidCoefficients:
    """Coefficients ``(K, F)`` as a product, which is read row by row."""

    combinations: NDArray[np.float32]  # of centroids ``(K, M)``
    centroids: Any  # ``(M, F)``, sparse

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of classes and of features."""
        return len(self.combinations), self.centroids.shape[1]

    @property
    def size(self) -> int:
        """Numbers that are kept."""
        return self.combinations.size + self.centroids.nnz

    def scaled(self, factor: float) -> CentroidCoefficients:
        """Return the coefficients times a factor."""
        return CentroidCoefficients(np.float32(factor) * self.combinations, self.centroids)

    def __getitem__(self, index: int | slice) -> Any:
        """Return the coefficients of a class ``(F,)``, or of several classes."""
        chosen = self.combinations[index]
        if chosen.ndim == 2:
            return CentroidCoefficients(chosen, self.centroids)
        return chosen.astype(np.float64) @ self.centroids

    def mean(self, axis: int) -> NDArray[np.float64]:
        """Return the mean of the classes ``(F,)``."""
        return self.combinations.mean(axis, dtype=np.float64) @ self.centroids

    def products(self, features: Any) -> NDArray[np.float64]:
        """Return the products with features ``(N, K)``."""
        scores = np.empty((features.shape[0], len(self.combinations)))
        for start in range(0, len(scores), ROWS):
            near = features[start : start + ROWS] @ self.centroids.T
            near = near.toarray() if sparse.issparse(near) else near
            scores[start : start + ROWS] = near @ self.combinations.T
        return scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `read_coefficients` takes."""
        rows = self.centroids
        parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        return {"combinations": self.combinations} | dict(zip(_PARTS, parts, strict=True))


def read_coefficients(arrays: dict[str, NDArray[Any]], width: int) -> CentroidCoefficients | None:
    """Return what was saved, None if other coefficients were."""
    if "combinations" not in arrays:
        return None
    data, indices, ends = (arrays[name] for name in _PARTS)
    centroids = sparse.csr_array((data, indices, ends), shape=(len(ends) - 1, width))
    centroids.check_format()
    combinations = arrays["combinations"]
    if combinations.ndim != 2 or combinations.shape[1] != len(ends) - 1:
        raise ValueError(f"{combinations.shape} combinations of {len(ends) - 1} centroids")
    return CentroidCoefficients(combinations, centroids)


def solved(
    features: Any, values: NDArray[np.int64], width: int, weights: NDArray[np.float64] | None = None
) -> tuple[CentroidCoefficients, NDArray[np.float64]]:
    """Return the coefficients of classes and their intercepts ``(K,)``, by least squares.

    The targets are 1 and -1; no matrix of objects and classes is made.

    Args:
        features: ``(N, F)``, sparse.
        values: The class of each object ``(N,)``.
        width: K.
        weights: Of the objects ``(N, 1)``.
    """
    weights = np.ones((len(values), 1)) if weights is None else weights
    entries = weights[:, 0], (values, np.arange(len(values)))
    sums = sparse.csr_array(entries, shape=(width, len(values)))
    totals = np.asarray(sums.sum(axis=1)).ravel()
    landmarks = np.sort(np.argsort(-totals, kind="stable")[: min(MOST_CENTROIDS, width)])
    centroids = unit_rows(sparse.csr_array(sums[landmarks] @ features))
    # coordinates in the span of the centroids, whose inner products are those of the features
    lengths, vectors = np.linalg.eigh((centroids @ centroids.T).toarray())
    is_kept = lengths > lengths[-1] * 1e-9
    basis = vectors[:, is_kept] / np.sqrt(lengths[is_kept])
    gram = np.zeros((basis.shape[1], basis.shape[1]))
    total, of_classes = np.zeros(len(gram)), np.zeros((width, len(gram)))
    for start in range(0, len(values), ROWS):
        rows = slice(start, start + ROWS)
        coordinates = (features[rows] @ centroids.T).toarray() @ basis
        weighed = coordinates * weights[rows]
        gram += coordinates.T @ weighed
        total += weighed.sum(0)
        np.add.at(of_classes, values[rows], weighed)
    mass = totals.sum()
    mean, base = total / mass, 2 * totals / mass - 1
    gram -= mass * np.outer(mean, mean)
    # sums of coordinates times targets, both centered
    pulls = 2 * of_classes - total - np.outer(base, total)
    inner, directions = eigh(gram, overwrite_a=True, check_finite=False)
    shrunk = (pulls @ directions) / (np.maximum(inner, 0) + SHRINKAGE)
    of_rows = shrunk @ directions.T
    intercepts = base - of_rows @ mean
    combinations = (of_rows @ basis.T).astype(np.float32)
    return CentroidCoefficients(combinations, centroids.astype(np.float32)), intercepts


def centroid_machine(
    kernel: Any, target: Column, objects: Any, values: NDArray[np.int64], rows: NDArray[np.intp],
    weights: NDArray[np.float64] | None,
) -> tuple[Any, CentroidCoefficients, NDArray[np.float64]]:  # fmt: skip
    """Return a kernel that is fitted to some objects, coefficients and intercepts."""
    unfitted: Any = clone(kernel)
    features = sparse.csr_array(unfitted.fit_transform([objects[row] for row in rows]))
    of_rows = None if weights is None else weights[rows]
    return unfitted, *solved(features, values[rows], target.width, of_rows)


def scores_without(
    kernel: Any, target: Column, objects: Any, values: NDArray[np.int64],
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:  # fmt: skip
    """Return scores ``(N, W)`` of the tested objects of some folds by centroids of the others."""
    scores = np.zeros((len(values), target.width))
    for some, tested in folds:
        parts = kernel, target, objects, values, some, weights
        learned, coefficients, intercepts = centroid_machine(*parts)
        features = learned.transform([objects[row] for row in tested])
        scores[tested] = coefficients.products(features) + intercepts
    return scores


def logit_scale(scores: NDArray[np.float64], values: NDArray[np.int64]) -> float:
    """Return the factor of scores with the smallest loss on objects that were held out.

    Smoothed labels keep it finite if all of them are right.
    """
    logits, truth = torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(values)
    smoothing = 1 / (len(values) + 1)

    def loss(scale: float) -> float:
        return cross_entropy(scale * logits, truth, label_smoothing=smoothing).item()

    best, least = LOGITS[0], loss(LOGITS[0])
    for scale in LOGITS[1:]:  # the loss is convex
        if (now := loss(scale)) > least:
            break
        best, least = scale, now
    return best


def is_ahead(
    scores: NDArray[np.float64], other: NDArray[np.float64], truth: NDArray[np.int64]
) -> bool:  # fmt: skip
    """Return True if scores are right of more objects than others, by `CLEARLY` standard errors."""
    right, beside = (table.argmax(1) == truth for table in (scores, other))
    gained, lost = int((right & ~beside).sum()), int((beside & ~right).sum())
    return gained - lost > CLEARLY * (gained + lost) ** 0.5


def best_classes(probabilities: NDArray[Any], names: Sequence[str]) -> list[list[str]]:
    """Return the most probable classes of each row, each with its probability, as cells."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, : len(RANKS)]
    chances = np.take_along_axis(probabilities, order, 1)
    rows = []
    for classes, values in zip(order.tolist(), chances.tolist(), strict=True):
        pairs = zip(classes, values, strict=True)
        rows.append([cell for c, chance in pairs for cell in (names[c], f"{chance:.6f}")])
    return rows
