"""Predictions of a model or a baseline for molecules, and their metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.estimators.calibration import coverage, likelihood
from representer.tasks.metrics import classification_metrics, paired_difference
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.regression_metrics import regression_metrics, rmse_difference


@dataclass(frozen=True)
class Predictions:
    """Predictions of all targets for some molecules.

    Attributes:
        name: Name of the model.
        description: Description of the model in one sentence.
        numbers: Predicted values of a regression ``(N, K)``.
        deviations: Predicted standard deviations ``(N, K)``, or None.
        probabilities: Class probabilities of each target of a classification ``(N, C)``.
        seconds: Training time.
    """

    name: str
    description: str = ""
    numbers: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None
    probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    seconds: float = 0.0


def figures_of(
    targets: Targets, values: NDArray[np.float64], predictions: Predictions
) -> dict[str, dict[str, Any]]:
    """Return the metrics of each target by its name; targets without a true value are left out.

    Args:
        targets: Targets of the run.
        values: True values ``(N, K)``, NaN where unknown.
        predictions: Predictions for the same molecules.
    """
    metrics = {}
    for k, name in enumerate(targets.names):
        rows = np.flatnonzero(~np.isnan(values[:, k]))
        if len(rows):
            metrics[name] = _figures(targets, values[rows, k], predictions, k, rows)
    return metrics


def differences(
    targets: Targets, values: NDArray[np.float64], model: Predictions, baseline: Predictions
) -> dict[str, tuple[float, float, float]]:
    """Return the difference between model and baseline by target, with a 95 % interval.

    It is the difference of the root mean squared errors for a regression, and of the accuracies
    for a classification.
    """
    found = {}
    for k, name in enumerate(targets.names):
        rows = np.flatnonzero(~np.isnan(values[:, k]))
        truth = values[rows, k]
        if not len(rows):
            continue
        if model.numbers is not None and baseline.numbers is not None:
            found[name] = rmse_difference(truth, model.numbers[rows, k], baseline.numbers[rows, k])
        else:
            right = [a.probabilities[k][rows].argmax(1) == truth for a in (model, baseline)]
            found[name] = paired_difference(*right)
    return found


def is_ahead(targets: Targets, difference: tuple[float, float, float]) -> bool | None:
    """Return True if the model is better by this difference, None if its interval contains 0."""
    _, low, high = difference
    if low <= 0 <= high:
        return None
    return (high < 0) if targets.is_regression else (low > 0)


def _figures(
    targets: Targets,
    truth: NDArray[np.float64],
    predictions: Predictions,
    k: int,
    rows: NDArray[np.intp],
) -> dict[str, Any]:
    if predictions.numbers is None:
        chances = predictions.probabilities[k][rows]
        found = classification_metrics(truth.astype(np.int64), chances, targets.classes[k])
        return {**found, "auc": _auc(truth, chances)}
    own = predictions.numbers[rows, k]
    found = regression_metrics(truth, own)
    if predictions.deviations is not None:
        deviations = predictions.deviations[rows, k]
        found["coverage"] = coverage(own, deviations, truth)
        found["log_loss"] = likelihood(own, deviations, truth)
        found["mean_deviation"] = float(deviations.mean())
    return found


def _auc(truth: NDArray[np.float64], chances: NDArray[np.float64]) -> float | None:
    """Return the area under the ROC curve; None unless there are two classes, both present."""
    if chances.shape[1] != 2 or len(set(truth.tolist())) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, chances[:, 1]))
