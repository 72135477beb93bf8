"""Predictions beside true values: the metrics of a model, and how another model compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer.report.metrics import (
    classification_metrics,
    coverage,
    effective_count,
    likelihood,
    paired_difference,
    regression_metrics,
    rmse_difference,
)
from representer.report.wording import rounded

MISTAKES, EXCERPT, POINTS = 12, 320, 800


class Column(NamedTuple):
    """One target of some objects.

    Attributes:
        name: Its name; empty if it has none.
        truth: Numbers of classes, or numbers ``(N,)``; NaN where unknown.
        classes: Names of the classes; none for numbers.
    """

    name: str
    truth: NDArray[Any]
    classes: Sequence[str]

    def known(self) -> NDArray[np.intp]:
        """Return the positions with a true value."""
        return np.flatnonzero(~np.isnan(self.truth))

    def at(self, positions: NDArray[np.intp]) -> Column:
        """Return the column at positions with a true value."""
        truth = self.truth[positions]
        return self._replace(truth=truth.astype(np.int64) if self.classes else truth)


@dataclass(frozen=True)
class Predictions:
    """Predictions for some objects.

    Attributes:
        values: Numbers of classes, or numbers ``(N,)``.
        probabilities: Of each class ``(N, C)``; None for numbers.
        deviations: Standard deviations ``(N,)``; None for classes.
        chances: Probability of the predicted class alone ``(N,)``, where there are too many classes
            to keep those of all.
        sets: Whether each class is in the prediction set ``(N, C)``; None without conformal
            prediction.
        half_widths: Half of the width of each interval ``(N,)``; None likewise.
    """

    values: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None
    chances: NDArray[np.float64] | None = None
    sets: NDArray[np.bool_] | None = None
    half_widths: NDArray[np.float64] | None = None

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        """Return the predictions for the objects of all parts."""
        columns = {name: [getattr(part, name) for part in parts] for name in vars(parts[0])}
        kept = {name: own for name, own in columns.items() if own[0] is not None}
        return cls(**{name: np.concatenate(own) for name, own in kept.items()})

    def at(self, positions: NDArray[np.intp]) -> Predictions:
        """Return the predictions at some positions."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        kept = {name: own[positions] for name, own in parts.items() if own is not None}
        return Predictions(**kept)


def figures_by_target(
    columns: Sequence[Column], predictions: Sequence[Predictions], digests: Any = None
) -> dict[str, Any]:
    """Return the metrics of a single target, or of each by its name; see `figures_of`.

    Targets without a true value are left out. Objects with the same digest are copies.
    """
    figures = {}
    for column, own in zip(columns, predictions, strict=True):
        if len(rows := column.known()):
            groups = None if digests is None else digests[rows]
            figures[column.name] = figures_of(column.at(rows), own.at(rows), groups)
    return figures if columns[0].name else figures[""]


def figures_of(column: Column, predictions: Predictions, digests: Any = None) -> dict[str, Any]:
    """Return the metrics of a classification or, with the coverage of intervals, a regression."""
    truth = column.truth
    count = effective_count(np.arange(len(truth)) if digests is None else digests)
    if predictions.probabilities is not None:
        figures = classification_metrics(truth, predictions.probabilities, column.classes, count)
        figures["auc"] = area_under_curve(truth, predictions.probabilities)
        if (sets := predictions.sets) is not None:
            names = [column.classes[number] for number in truth]
            inside = sets[np.arange(len(truth)), truth]
            figures["conformal"] = {
                "coverage": float(inside.mean()),
                "mean_size": float(sets.sum(axis=1).mean()),
                "by_class": rates_by(names, inside),
            }
        return figures
    figures = regression_metrics(truth, predictions.values, count)
    if predictions.deviations is not None:
        intervals = predictions.values, predictions.deviations, truth
        figures["coverage"] = coverage(*intervals)
        figures["log_loss"] = likelihood(*intervals)
        figures["mean_deviation"] = float(predictions.deviations.mean())
    if (half := predictions.half_widths) is not None:
        held = float((np.abs(truth - predictions.values) <= half).mean())
        figures["conformal"] = {"coverage": held, "mean_width": float(2 * half.mean())}
    return figures


def rates_by(names: Sequence[Any], inside: NDArray[np.bool_]) -> dict[Any, float]:
    """Return the share of rows that are inside, of those of each name."""
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return {name: float(inside[of_name].mean()) for name, of_name in rows.items()}


def area_under_curve(truth: NDArray[np.int64], chances: NDArray[np.float64]) -> float | None:
    """Return the area under the ROC curve; None unless there are two classes, both present."""
    if chances.shape[1] != 2 or len(set(truth.tolist())) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, chances[:, 1]))


def compared(
    columns: Sequence[Column], predictions: Sequence[Predictions], others: Sequence[Predictions],
    digests: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the test metrics of another model and the paired difference, of each target.

    Objects with the same digest are copies. The difference is that of the ``pairs``, the objects
    without them, since they would make it look more certain than it is.
    """
    figures, differences = {}, {}
    for column, own, other in zip(columns, predictions, others, strict=True):
        rows = column.known()
        if not len(rows):
            continue
        groups = None if digests is None else digests[rows]
        listed = figures_of(column.at(rows), other.at(rows), groups)
        if groups is not None:
            rows = rows[np.sort(np.unique(groups, return_index=True)[1])]
        known, model, beside = column.at(rows), own.at(rows), other.at(rows)
        if model.probabilities is not None:
            kept = ("count", "accuracy", "accuracy_interval", "macro_f1", "auc")
            listed = {name: listed[name] for name in kept}
            pair = model.values == known.truth, beside.values == known.truth
            difference = paired_difference(*pair)
        else:
            difference = rmse_difference(known.truth, model.values, beside.values)
        figures[column.name] = listed | {"pairs": len(rows)}
        differences[column.name] = list(difference)
    if columns[0].name:
        return {"test": figures, "difference": differences}
    return {**figures[""], "difference": differences[""]}


def shown(predictions: Predictions, row: int, names: Sequence[str]) -> str:
    """Return a prediction with its probability or standard deviation as text."""
    value, chances = predictions.values[row], predictions.chances
    if predictions.probabilities is not None:
        chances = predictions.probabilities[:, int(value)]
    if chances is not None:
        return f"{names[int(value)]} ({100 * chances[row]:.0f} %)"
    if predictions.deviations is None:
        return f"{value:.4g}"
    deviation = rounded(predictions.deviations[row], 2)
    return f"{value:.{len(deviation.partition('.')[2])}f} ± {deviation}"


def worst(column: Column, predictions: Predictions) -> list[int]:
    """Return the positions of the most confident errors, or of the largest errors."""
    known, predicted = column.known(), predictions.values
    if predictions.probabilities is not None:
        wrong = known[predicted[known] != column.truth[known]]
        confidence = predictions.probabilities[wrong, predicted[wrong]]
        rows = wrong[np.argsort(-confidence, kind="stable")]
    else:
        errors = np.abs(predicted[known] - column.truth[known])
        rows = known[np.argsort(-errors, kind="stable")]
    return rows[:MISTAKES].tolist()


def mistakes(
    column: Column,
    predictions: Predictions,
    objects: Sequence[Any],
    labels: Sequence[Any],
    numbers: Sequence[int],
) -> list[dict[str, Any]]:
    """Return the objects at the positions of `worst`; texts are shown with their beginning."""
    return [
        {
            "number": numbers[i],
            "truth": labels[i],
            "predicted": shown(predictions, i, column.classes),
            "text": _excerpt(objects[i]),
        }
        for i in worst(column, predictions)
    ]


def _excerpt(one: Any) -> str:
    words = " ".join(one.split()) if isinstance(one, str) else ""
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"


def points(
    columns: Sequence[Column], predictions: Sequence[Predictions]
) -> dict[str, list[list[float]]]:
    """Return true value, prediction and deviation of objects by target, for the plot."""
    result = {}
    for column, own in zip(columns, predictions, strict=True):
        if own.deviations is not None:
            rows = column.known()[:POINTS]
            parts = (column.truth, own.values, own.deviations)
            table = np.stack([part[rows] for part in parts], axis=1)
            result[column.name] = table.round(5).tolist()
    return result


def by_target(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return metrics.json as those of runs with one target each, by the name of the target.

    A run whose target has no name is returned as it is, under an empty name. There are none without
    a test.
    """
    if metrics["test"] is None:
        return {}
    if not metrics["targets"]:
        return {"": metrics}
    return {
        name: metrics
        | {"test": figures}
        | {kind: [_of(row, name) for row in metrics[kind]] for kind in ("comparisons", "baselines")}
        for name, figures in metrics["test"].items()
    }


def _of(row: dict[str, Any], name: str) -> dict[str, Any]:
    return row | row["test"][name] | {"difference": row["difference"][name]}
