"""Regression metrics: errors with their intervals, and paired differences of two models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
LEVELS = (0.5, 0.8, 0.9, 0.95)
Z = {0.5: 0.67449, 0.8: 1.28155, 0.9: 1.64485, 0.95: 1.95996}  # two-sided normal quantiles
_CHUNK = 4_000_000  # numbers drawn at once


def regression_metrics(
    truth: NDArray[np.float64], predictions: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the metrics of predictions, ready to be written as JSON.

    Args:
        truth: ``(N,)``, at least one value.
        predictions: ``(N,)``.

    Returns:
        ``count``, ``rmse``, ``rmse_interval`` (95 %, from resampled examples), ``mae`` and ``r2``
        (None if all true values are equal).
    """
    squares = (predictions - truth) ** 2
    spread = float(((truth - truth.mean()) ** 2).sum())
    means = _resampled(squares[:, None])[:, 0]
    low, high = np.quantile(np.sqrt(means), (0.025, 0.975))
    return {
        "count": len(truth),
        "rmse": float(squares.mean() ** 0.5),
        "rmse_interval": [float(low), float(high)],
        "mae": float(np.abs(predictions - truth).mean()),
        "r2": 1 - float(squares.sum()) / spread if spread > 0 else None,
    }


def rmse_difference(
    truth: NDArray[np.float64], model: NDArray[np.float64], baseline: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the RMSE of a model minus that of a baseline, with a 95 % interval.

    Both predicted the same examples, which are resampled in pairs. Below 0 the model is better.

    Args:
        truth: True values ``(N,)``.
        model: Predictions ``(N,)``.
        baseline: Predictions ``(N,)``.
    """
    squares = np.stack([(model - truth) ** 2, (baseline - truth) ** 2], axis=1)
    first, second = squares.mean(0) ** 0.5
    roots = np.sqrt(_resampled(squares))
    low, high = np.quantile(roots[:, 0] - roots[:, 1], (0.025, 0.975))
    return float(first - second), float(low), float(high)


def likelihood(
    predictions: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> float:
    """Return the mean negative log density of the true values in nats; lower is better."""
    squares = ((predictions - truth) / deviations) ** 2
    return float((np.log(deviations) + squares / 2).mean() + math.log(2 * math.pi) / 2)


def coverage(
    predictions: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> dict[str, float]:
    """Return the fraction of true values in the central intervals of each of LEVELS."""
    sizes = np.abs(predictions - truth) / deviations
    return {str(level): float((sizes <= Z[level]).mean()) for level in LEVELS}


def _resampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means ``(RESAMPLES, C)`` of examples drawn with replacement."""
    rng, count = np.random.default_rng(0), len(values)
    size = max(1, _CHUNK // count)
    means = [
        values[rng.integers(count, size=(min(size, RESAMPLES - start), count))].mean(1)
        for start in range(0, RESAMPLES, size)
    ]
    return np.concatenate(means)
