"""What a model, or a baseline, answered on the test molecules, and how good that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.tasks.metrics import classification_metrics, paired_difference
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.molecule.molecule_uncertainty import coverage, likelihood
from representer.tasks.regression_metrics import regression_metrics, rmse_difference


@dataclass(frozen=True)
class Answers:
    """Answers to all targets of some molecules.

    Attributes:
        name: Of what answered.
        description: What it is, in one sentence.
        numbers: Of a regression ``(N, K)``.
        deviations: How far off each may be ``(N, K)``; None where nothing is said.
        probabilities: Of a classification, target by target ``(N, C)``.
        seconds: Time to train it.
    """

    name: str
    description: str = ""
    numbers: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None
    probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    seconds: float = 0.0


def figures_of(
    targets: Targets, values: NDArray[np.float64], answers: Answers
) -> dict[str, dict[str, Any]]:
    """Return the figures of each target by its name; targets without a true value are left out.

    Args:
        targets: Of the run.
        values: The truth ``(N, K)``, NaN where there is none.
        answers: To the same molecules.
    """
    found = {}
    for k, name in enumerate(targets.names):
        rows = np.flatnonzero(~np.isnan(values[:, k]))
        if len(rows):
            found[name] = _figures(targets, values[rows, k], answers, k, rows)
    return found


def differences(
    targets: Targets, values: NDArray[np.float64], ours: Answers, theirs: Answers
) -> dict[str, tuple[float, float, float]]:
    """Return how far apart two are, by target, with a 95 % interval.

    Of a regression it is our root mean square error less theirs, of a classification our accuracy
    less theirs.
    """
    found = {}
    for k, name in enumerate(targets.names):
        rows = np.flatnonzero(~np.isnan(values[:, k]))
        truth = values[rows, k]
        if not len(rows):
            continue
        if ours.numbers is not None and theirs.numbers is not None:
            found[name] = rmse_difference(truth, ours.numbers[rows, k], theirs.numbers[rows, k])
        else:
            right = [a.probabilities[k][rows].argmax(1) == truth for a in (ours, theirs)]
            found[name] = paired_difference(*right)
    return found


def is_ahead(targets: Targets, difference: tuple[float, float, float]) -> bool | None:
    """Say whether ours is better by this difference; None where its interval holds 0."""
    _, low, high = difference
    if low <= 0 <= high:
        return None
    return (high < 0) if targets.is_regression else (low > 0)


def _figures(
    targets: Targets, truth: NDArray[np.float64], answers: Answers, k: int, rows: NDArray[np.intp]
) -> dict[str, Any]:
    if answers.numbers is None:
        chances = answers.probabilities[k][rows]
        found = classification_metrics(truth.astype(np.int64), chances, targets.classes[k])
        return {**found, "auc": _auc(truth, chances)}
    own = answers.numbers[rows, k]
    found = regression_metrics(truth, own)
    if answers.deviations is not None:
        deviations = answers.deviations[rows, k]
        found["coverage"] = coverage(own, deviations, truth)
        found["log_loss"] = likelihood(own, deviations, truth)
        found["mean_deviation"] = float(deviations.mean())
    return found


def _auc(truth: NDArray[np.float64], chances: NDArray[np.float64]) -> float | None:
    """Return the area under the curve of two classes; None where one is missing, or of more."""
    if chances.shape[1] != 2 or len(set(truth.tolist())) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, chances[:, 1]))
