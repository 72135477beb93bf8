"""Results of a task that trains an estimator, for metrics.json and details.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from representer.estimators.explanation import NETWORK, Part
from representer.report.results import Column, Predictions, compared, figures_by_target
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data
from representer.training.training_result import TrainingResult

MISTAKES, EXCERPT, POINTS = 12, 320, 2000


@dataclass(frozen=True)
class Outcome:
    """A trained model as the results show it.

    Attributes:
        name: Name of the model.
        predictions: For the test objects, of each target.
        training: Result of the network's training; None without a network.
        steps_per_epoch: Batches of the training objects.
        parameters: Number of parameters by part, and of ``"all"``.
        parts: Kernel and network, see `NetworkEstimator.parts_`.
    """

    name: str
    predictions: Sequence[Predictions]
    training: TrainingResult | None
    steps_per_epoch: int
    parameters: dict[str, int]
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Time of training all parts."""
        if not self.parts:
            return self.training.seconds if self.training else 0.0
        return sum(part.seconds or 0.0 for part in self.parts.values())


def model_name(parts: Mapping[str, Part], network: str) -> str:
    """Return the name of what predicts: the parts that were not dropped.

    Args:
        parts: Kernel and network.
        network: Name of the network.
    """
    return " + ".join(
        network if name == NETWORK else name for name, part in parts.items() if part.share > 0
    )


def metrics_of(
    task: str,
    data: Data,
    outcome: Outcome,
    others: Sequence[Outcome] = (),
    baselines: Sequence[Baseline] = (),
) -> dict[str, Any]:
    """Return metrics.json: the test metrics of the model, of other networks and of baselines."""
    columns, predictions, training = data.columns("test"), outcome.predictions, outcome.training
    about = "Trained with the same settings."
    return {
        "task": task,
        "kind": "regression" if data.is_regression else "classification",
        "model": outcome.name,
        "targets": list(data.targets),
        "test": figures_by_target(columns, predictions),
        **_training(training, outcome.steps_per_epoch),
        "seconds": outcome.seconds,
        "parts": {name: part._asdict() for name, part in outcome.parts.items()},
        "parameters": outcome.parameters,
        "comparisons": [
            {"name": one.name, "description": about, "seconds": one.seconds}
            | compared(columns, predictions, one.predictions)
            for one in others
        ],
        "baselines": [
            {"name": one.name, "description": one.description, "seconds": one.seconds}
            | compared(columns, predictions, predictions_of_baseline(one, columns))
            for one in baselines
        ],
    }


def _training(training: TrainingResult | None, steps: int) -> dict[str, Any]:
    """Return how the network was trained; nothing without one."""
    if training is None:
        return {"valid": None}
    best = training.best
    return {
        "valid": best,
        "best_epoch": (best["step"] if best else training.step) / steps,
        "epochs": training.step / steps,
        "steps": training.step,
        "steps_per_epoch": steps,
        "stopped_by": training.reason,
    }


def predictions_of_baseline(baseline: Baseline, columns: Sequence[Column]) -> list[Predictions]:
    """Return the predictions of a baseline for each target."""
    table = baseline.predictions.reshape(len(baseline.predictions), -1)
    result = []
    for k, column in enumerate(columns):
        values, chances = table[:, k], None
        if column.classes:
            values = values.astype(np.int64)
            one_hot = np.eye(len(column.classes))
            chances = baseline.probabilities[k] if baseline.probabilities else one_hot[values]
        result.append(Predictions(values, chances))
    return result


def mistakes(data: Data, predictions: Predictions) -> list[dict[str, Any]]:
    """Return the test objects with the most confident errors, or with the largest errors.

    Objects that are texts are shown with their beginning. Of several targets, these are the errors
    of the first one.

    Args:
        data: The data.
        predictions: Of the first target.
    """
    part, column = data.parts["test"], data.columns("test")[0]
    known, predicted = column.known(), predictions.values
    if predictions.probabilities is not None:
        wrong = known[predicted[known] != column.truth[known]]
        confidence = predictions.probabilities[wrong, predicted[wrong]]
        rows = wrong[np.argsort(-confidence, kind="stable")]
    else:
        errors = np.abs(predicted[known] - column.truth[known])
        rows = known[np.argsort(-errors, kind="stable")]
    labels = part.columns[0][1]
    return [
        {
            "number": part.numbers[i],
            "truth": labels[i],
            "predicted": shown(predictions, i, column.classes),
            "text": _excerpt(part.objects[i]),
        }
        for i in rows[:MISTAKES].tolist()
    ]


def points(data: Data, predictions: Sequence[Predictions]) -> dict[str, list[list[float]]]:
    """Return true value, prediction and deviation of test objects by target, for the plot."""
    result = {}
    for column, own in zip(data.columns("test"), predictions, strict=True):
        if own.deviations is not None:
            rows = column.known()[:POINTS]
            parts = (column.truth, own.values, own.deviations)
            table = np.stack([part[rows] for part in parts], axis=1)
            result[column.name] = table.round(5).tolist()
    return result


def _excerpt(one: Any) -> str:
    words = " ".join(one.split()) if isinstance(one, str) else ""
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"


def shown(predictions: Predictions, row: int, names: Sequence[str]) -> str:
    """Return a prediction with its probability or standard deviation as text."""
    value, chances = predictions.values[row], predictions.chances
    if predictions.probabilities is not None:
        chances = predictions.probabilities[:, int(value)]
    if chances is not None:
        return f"{names[int(value)]} ({100 * chances[row]:.0f} %)"
    mean = f"{value:.4g}"
    return mean if predictions.deviations is None else f"{mean} ± {predictions.deviations[row]:.2g}"
