"""Results of a task that trains an estimator, for metrics.json and details.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from representer.estimators.explanation import Part
from representer.report.results import Column, Predictions, compared, figures_by_target
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data
from representer.training.training_result import TrainingResult


@dataclass(frozen=True)
class Outcome:
    """A trained model as the results show it.

    Attributes:
        name: Name of the model.
        predictions: For the test objects, of each target.
        training: Result of the network's training; None without a network.
        steps_per_epoch: Batches of the training objects.
        parameters: Number of parameters by part, and of ``"all"``.
        parts: Kernel and network, see `Estimator.parts_`.
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
