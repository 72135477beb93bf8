"""Results of a task that trains an estimator: metrics.json, details.json, and the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data
from representer.tasks.metrics import Z95, classification_metrics, paired_difference
from representer.tasks.regression_metrics import regression_metrics, rmse_difference
from representer.training.training_result import TrainingResult

MISTAKES, EXCERPT = 12, 320


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


@dataclass(frozen=True)
class Outcome:
    """A trained network as the results show it.

    Attributes:
        name: Name of the model.
        predictions: For the test objects.
        training: Result of the training.
        steps_per_epoch: Batches of the training objects.
        parameters: Number of parameters by part, and of ``"all"``.
    """

    name: str
    predictions: Predictions
    training: TrainingResult
    steps_per_epoch: int
    parameters: dict[str, int]


def metrics_of(
    task: str,
    data: Data,
    outcome: Outcome,
    others: Sequence[Outcome] = (),
    baselines: Sequence[Baseline] = (),
) -> dict[str, Any]:
    """Return metrics.json: the test metrics of the model, of other networks and of baselines."""
    truth, names, training = data.values["test"], data.names, outcome.training
    predictions, best, steps = outcome.predictions, training.best, outcome.steps_per_epoch
    about = "Trained with the same settings."
    beside = [
        Baseline(other.name, about, other.predictions.values, other.training.seconds)
        for other in others
    ]
    return {
        "task": task,
        "kind": "regression" if data.is_regression else "classification",
        "model": outcome.name,
        "test": figures_of(truth, predictions, names),
        "valid": best,
        "best_epoch": (best["step"] if best else training.step) / steps,
        "epochs": training.step / steps,
        "steps": training.step,
        "steps_per_epoch": steps,
        "stopped_by": training.reason,
        "seconds": training.seconds,
        "parameters": outcome.parameters,
        "comparisons": [compared(truth, predictions, one, names) for one in beside],
        "baselines": [compared(truth, predictions, one, names) for one in baselines],
    }


def figures_of(
    truth: NDArray[Any], predictions: Predictions, names: Sequence[str]
) -> dict[str, Any]:
    """Return the metrics of a classification or, with the coverage of intervals, a regression."""
    if predictions.probabilities is not None:
        return classification_metrics(truth, predictions.probabilities, names)
    figures = regression_metrics(truth, predictions.values)
    if predictions.deviations is not None:
        is_inside = np.abs(predictions.values - truth) <= Z95 * predictions.deviations
        figures["coverage_95"] = float(is_inside.mean())
    return figures


def compared(
    truth: NDArray[Any], predictions: Predictions, baseline: Baseline, names: Sequence[str]
) -> dict[str, Any]:
    """Return the test metrics of a baseline and the paired difference to the model."""
    described = {
        "name": baseline.name,
        "description": baseline.description,
        "seconds": baseline.seconds,
    }
    if predictions.probabilities is not None:
        one_hot = np.eye(len(names))[baseline.predictions]
        figures = classification_metrics(truth, one_hot, names)
        kept = {k: figures[k] for k in ("accuracy", "accuracy_interval", "macro_f1")}
        pair = predictions.values == truth, baseline.predictions == truth
        return {**described, **kept, "difference": list(paired_difference(*pair))}
    difference = rmse_difference(truth, predictions.values, baseline.predictions)
    figures = regression_metrics(truth, baseline.predictions)
    return {**described, **figures, "difference": list(difference)}


def verdict(metrics: dict[str, Any], nouns: str) -> str:
    """Return a sentence that compares the model with each baseline.

    The model is "ahead" or "behind" where the 95 % interval of the paired difference excludes 0.
    """
    is_regression = metrics["kind"] == "regression"
    parts = []
    for baseline in (*metrics["comparisons"], *metrics["baselines"]):
        difference, low, high = baseline["difference"]
        is_ahead, is_behind = (high < 0, low > 0) if is_regression else (low > 0, high < 0)
        relation = "ahead of" if is_ahead else "behind" if is_behind else "level with"
        interval = f"RMSE {difference:+.3g}, 95 % interval {low:+.3g} to {high:+.3g}"
        if not is_regression:
            points = (100 * number for number in (difference, low, high))
            interval = "{:+.1f} points, 95 % interval {:+.1f} to {:+.1f}".format(*points)
        parts.append(f"{relation} {baseline['name']} ({interval})")
    if not parts:
        return ""
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return f"On {metrics['test']['count']} test {nouns}, {metrics['model']} is {listed}."


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal."""
    rows = [(metrics["model"], metrics["test"], metrics["seconds"])]
    others = (*metrics["comparisons"], *metrics["baselines"])
    rows += [(row["name"], row, row["seconds"]) for row in others]
    width = max(len(name) for name, _, _ in rows)
    if metrics["kind"] == "regression":
        lines = [f"{'':<{width}}        RMSE    95 % interval             MAE      R²  training"]
        for name, row, seconds in rows:
            low, high = row["rmse_interval"]
            r2 = "–" if row["r2"] is None else f"{row['r2']:.3f}"
            lines.append(
                f"{name:<{width}}  {row['rmse']:10.4g}  {low:10.4g} – {high:<10.4g}"
                f"  {row['mae']:8.4g}  {r2:>6}  {seconds:6.1f} s"
            )
        return "\n".join(lines)
    lines = [f"{'':<{width}}  accuracy  95 % interval     macro F1  training"]
    for name, row, seconds in rows:
        low, high = (100 * bound for bound in row["accuracy_interval"])
        lines.append(
            f"{name:<{width}}  {100 * row['accuracy']:6.2f} %  {low:5.2f} – {high:6.2f} %  "
            f"{row['macro_f1']:8.3f}  {seconds:6.1f} s"
        )
    return "\n".join(lines)


def mistakes(data: Data, predictions: Predictions, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the test objects with the most confident errors, or with the largest errors.

    Objects that are texts are shown with their beginning.
    """
    part = data.parts["test"]
    truth, predicted = data.values["test"], predictions.values
    if predictions.probabilities is not None:
        wrong = np.flatnonzero(predicted != truth)
        confidence = predictions.probabilities[wrong, predicted[wrong]]
        rows = wrong[np.argsort(-confidence, kind="stable")]
    else:
        rows = np.argsort(-np.abs(predicted - truth), kind="stable")
    return [
        {
            "number": part.numbers[i],
            "truth": part.labels[i],
            "predicted": shown(predictions, i, names),
            "text": _excerpt(part.objects[i]),
        }
        for i in rows[:MISTAKES].tolist()
    ]


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
