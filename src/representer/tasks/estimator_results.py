"""Results of a task that trains an estimator, for metrics.json and details.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.estimators.calibration import coverage, likelihood
from representer.estimators.explanation import NETWORK, Part
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_targets import Column
from representer.tasks.metrics import classification_metrics, paired_difference
from representer.tasks.regression_metrics import regression_metrics, rmse_difference
from representer.training.training_result import TrainingResult

MISTAKES, EXCERPT, POINTS = 12, 320, 2000


@dataclass(frozen=True)
class Predictions:
    """Predictions for some objects.

    Attributes:
        values: Numbers of classes, or numbers ``(N,)``.
        probabilities: Of each class ``(N, C)``; None for numbers.
        deviations: Standard deviations ``(N,)``; None for classes.
    """

    values: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None

    def at(self, positions: NDArray[np.intp]) -> Predictions:
        """Return the predictions at some positions."""
        others = (self.probabilities, self.deviations)
        at = (None if part is None else part[positions] for part in others)
        return Predictions(self.values[positions], *at)


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


def figures_by_target(
    columns: Sequence[Column], predictions: Sequence[Predictions]
) -> dict[str, Any]:
    """Return the metrics of a single target, or of each by its name; see `figures_of`.

    Targets without a true value are left out.
    """
    figures = {}
    for column, own in zip(columns, predictions, strict=True):
        if len(rows := column.known()):
            figures[column.name] = figures_of(column.at(rows), own.at(rows))
    return figures if columns[0].name else figures[""]


def figures_of(column: Column, predictions: Predictions) -> dict[str, Any]:
    """Return the metrics of a classification or, with the coverage of intervals, a regression."""
    truth = column.truth
    if predictions.probabilities is not None:
        figures = classification_metrics(truth, predictions.probabilities, column.classes)
        return figures | {"auc": _auc(truth, predictions.probabilities)}
    figures = regression_metrics(truth, predictions.values)
    if predictions.deviations is not None:
        intervals = predictions.values, predictions.deviations, truth
        figures["coverage"] = coverage(*intervals)
        figures["log_loss"] = likelihood(*intervals)
        figures["mean_deviation"] = float(predictions.deviations.mean())
    return figures


def _auc(truth: NDArray[np.int64], chances: NDArray[np.float64]) -> float | None:
    """Return the area under the ROC curve; None unless there are two classes, both present."""
    if chances.shape[1] != 2 or len(set(truth.tolist())) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, chances[:, 1]))


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


def compared(
    columns: Sequence[Column], predictions: Sequence[Predictions], others: Sequence[Predictions]
) -> dict[str, Any]:
    """Return the test metrics of another model and the paired difference, of each target.

    Args:
        columns: The targets.
        predictions: Of the model.
        others: Of the other model.
    """
    figures, differences = {}, {}
    for column, own, other in zip(columns, predictions, others, strict=True):
        rows = column.known()
        if not len(rows):
            continue
        known, model, beside = column.at(rows), own.at(rows), other.at(rows)
        listed = figures_of(known, beside)
        if model.probabilities is not None:
            kept = ("count", "accuracy", "accuracy_interval", "macro_f1", "auc")
            listed = {name: listed[name] for name in kept}
            pair = model.values == known.truth, beside.values == known.truth
            difference = paired_difference(*pair)
        else:
            difference = rmse_difference(known.truth, model.values, beside.values)
        figures[column.name], differences[column.name] = listed, list(difference)
    if columns[0].name:
        return {"test": figures, "difference": differences}
    return {**figures[""], "difference": differences[""]}


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
    if predictions.probabilities is not None:
        number = int(predictions.values[row])
        return f"{names[number]} ({100 * predictions.probabilities[row, number]:.0f} %)"
    mean = f"{predictions.values[row]:.4g}"
    return mean if predictions.deviations is None else f"{mean} ± {predictions.deviations[row]:.2g}"
