"""A linear model of one target: softmax regression of classes, ridge regression of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from representer.estimators.classes import Classes
from representer.estimators.softmax_regression import SoftmaxRegression
from representer.estimators.targets import Column

UNSEEN = 10.0  # logits by which a class without training objects is behind

Features = sparse.csr_array | NDArray[np.float64]
Solution = tuple[NDArray[np.float64], NDArray[np.float64]]  # coefficients (W, F), intercepts (W,)


def as_columns(target: Column, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return indicators of classes ``(N, C)``, or a standardized number ``(N, 1)``."""
    if isinstance(target, Classes):
        return np.eye(target.width)[values]
    return (values - np.asarray(target.means)) / np.asarray(target.scales)


def scores_of(
    features: Features, coefficients: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the scores ``(N, W)`` of a linear model."""
    return np.asarray(features @ coefficients.T) + intercepts


def solver(
    target: Column,
    features: Features,
    values: NDArray[Any],
    weights: NDArray[np.float64] | None = None,
) -> Callable[[float], Solution]:
    """Return the function from C to the coefficients and intercepts of the smallest penalized loss.

    Its calls start from the solution of the call before, so that ascending C take less time. The
    losses of the values may have weights ``(N, 1)``.
    """
    if isinstance(target, Classes):
        seen, labels = np.unique(values, return_inverse=True)
        fit = _softmax(features, labels, len(seen), weights)
        return lambda penalty: _one_per_class(target.width, seen, *fit(penalty))
    standardized = as_columns(target, values)
    shape: Any = features.shape
    if not shape[1]:  # which Ridge refuses
        mean = np.average(standardized, axis=0, weights=weights)
        return lambda penalty: (np.zeros((len(mean), 0)), mean)

    def ridge(penalty: float) -> Solution:
        of_rows = None if weights is None else weights[:, 0]
        model = Ridge(alpha=1 / (2 * penalty), tol=1e-6).fit(features, standardized, of_rows)
        coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        return coefficients, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))

    return ridge


def _softmax(
    features: Features,
    labels: NDArray[np.int64],
    count: int,
    weights: NDArray[np.float64] | None,
) -> Callable[[float], Solution]:
    """Return the function from C to a row per class, which sum to 0 for two classes."""
    if count == 1:
        shape: Any = features.shape
        return lambda penalty: (np.zeros((1, shape[1])), np.zeros(1))
    model = SoftmaxRegression(features, labels, weights)
    # C is that of logistic regression, which penalizes the difference of two classes
    return lambda penalty: model.fit(penalty / 2 if count == 2 else penalty)


def _one_per_class(
    count: int, seen: NDArray[np.int64], rows: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> Solution:
    """Return a row per class from those of the classes in the training data."""
    coefficients = np.zeros((count, rows.shape[1]))
    offsets = np.full(count, intercepts.min() - UNSEEN)
    coefficients[seen], offsets[seen] = rows, intercepts
    return coefficients, offsets
