"""The report of a fitted estimator of objects, on the page that a run of ``fit`` has, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from representer.errors import ArgumentError, DataError, KindError
from representer.estimators.containers import as_sequence
from representer.estimators.fitting import batch_size_for, monitored
from representer.estimators.results import (
    classes_of,
    explain_rows,
    model_name,
    parameter_counts,
    predictions_of,
    result_columns,
)
from representer.estimators.saving import is_plain
from representer.estimators.targets import (
    Numbers,
    columns_of,
    require_same_length,
)
from representer.report.page import Results
from representer.report.results import Column, figures_by_target, mistakes, points, worst
from representer.training.early_stopping import best_index
from representer.training.fingerprint import fingerprint

if TYPE_CHECKING:
    from representer.estimators.base import Estimator
    from representer.estimators.supervised import SupervisedEstimator

EXPLAINED_ERRORS = 3
_MOST_CLASSES = 20  # to list by name


def results_of(estimator: SupervisedEstimator, X: Any, y: Any, k: int, examples: int) -> Results:
    """Return what the report of an estimator shows; see `Estimator.report`."""
    target, noun, nouns = estimator.target_, estimator._noun, f"{estimator._noun}s"
    if X is None and y is not None:
        raise ArgumentError("X", None, f"the {nouns} that y belongs to")
    is_regression = isinstance(target, Numbers)
    kind = "regression" if is_regression else "classification"
    metrics, details = about(estimator, f"{kind} of {nouns}")
    details |= {"noun": noun, "nouns": nouns, "place": "row of X", "mistakes": [], "points": {}}
    wrong: list[int] = []
    details["data"] |= {"test": None, "sources": [], "labels": {}, "facts": _facts(estimator)}
    metrics |= {"kind": kind, **_training(estimator)}
    if machine := estimator.machine_:
        details["model"]["values"]["kernel"] = machine.description
    explained: list[dict[str, Any]] = []
    if X is not None:
        objects = estimator._objects(X)
        predictions = predictions_of(estimator, objects)
        names = _names(estimator)
        if y is not None:
            columns = _columns(estimator, objects, y)
            figures = figures_by_target(columns, predictions, estimator.digests(objects))
            metrics |= {"targets": names, "test": figures}
            details["data"]["test"] = len(objects)
            details["mistakes"] = mistakes(
                columns[0], predictions[0], objects, _labels(columns[0]), range(len(objects))
            )
            details["points"] = points(columns, predictions)
            wrong = worst(columns[0], predictions[0])[: min(EXPLAINED_ERRORS, examples)]
        try:
            rows = range(len(objects[:examples]))
            explained = explain_rows(estimator, objects, predictions, rows, noun, k, names)
            errors = explain_rows(estimator, objects, predictions, wrong, noun, k, names)
            for row, entry in zip(details["mistakes"], errors, strict=False):
                row["explained"] = entry | {"truth": row["truth"]}
        except KindError as error:
            details["data"]["facts"]["explanations"] = f"none: {error}"
    return Results(metrics, details, estimator.history_, explained)


def about(estimator: Estimator, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is known of every fitted estimator, as in metrics.json and details.json."""
    parts = estimator.parts_
    seconds = [part.seconds for part in parts.values()]
    name = model_name(parts, estimator._network_name)
    metrics = {
        "task": "estimator",
        "model": name,
        "test": None,
        "targets": [],
        "comparisons": [],
        "baselines": [],
        "verdict": "",
        "parts": {name: part._asdict() for name, part in parts.items()},
        "seconds": None if None in seconds else sum(filter(None, seconds)),
        "parameters": parameter_counts(estimator),
    }
    chosen = estimator.get_params(deep=False)
    values = {"model": name}
    if metrics["seconds"] is not None:
        values["training"] = f"{metrics['seconds']:.1f} s"
    details = {
        "title": f"{type(estimator).__name__}: {what}",
        "command": repr(estimator),
        "config": {name: value for name, value in chosen.items() if is_plain(value)},
        "environment": environment_of(estimator),
        "data": dict(estimator.examples_),
        "model": {"values": values},
    }
    return metrics, details


def environment_of(estimator: Estimator) -> dict[str, str]:
    """Return the versions and the device of a fitted estimator."""
    network = estimator.network_
    return fingerprint("cpu" if network is None else next(network.parameters()).device)


def _training(estimator: SupervisedEstimator) -> dict[str, Any]:
    """Return steps per epoch, and the epoch of the weights that were kept."""
    if not estimator.history_:
        return {}
    count = estimator.examples_["train"]
    steps = -(-count // batch_size_for(estimator, count))
    name, direction = monitored(estimator, estimator.target_, estimator.examples_["valid"])
    best = best_index([row.get(name) for row in estimator.history_], direction)
    chosen = estimator.history_[-1 if best is None else best]
    return {"steps_per_epoch": steps, "best_epoch": chosen["step"] / steps}


def _facts(estimator: SupervisedEstimator) -> dict[str, str]:
    """Return the classes, or the mean and the standard deviation, of each target."""
    target, names = estimator.target_, _names(estimator) or [""]
    facts = {}
    if isinstance(target, Numbers):
        for name, mean, scale in zip(names, target.means, target.scales, strict=True):
            facts[f"training values {name}".strip()] = f"{mean:.4g} ± {scale:.4g}"
        return facts
    for name, classes in zip(names, classes_of(target), strict=True):
        listed = ", ".join(classes[:_MOST_CLASSES]) + (
            ", …" if len(classes) > _MOST_CLASSES else ""
        )
        facts[f"classes {name}".strip()] = f"{len(classes)}: {listed}"
    return facts


def _names(estimator: SupervisedEstimator) -> list[str]:
    """Return the names of several targets; none for a single one."""
    count = len(columns_of(estimator.target_))
    return [f"y[:, {k}]" for k in range(count)] if count > 1 else []


def _columns(estimator: SupervisedEstimator, objects: Sequence[Any], y: Any) -> list[Column]:
    """Return the true values of each target.

    Raises:
        DataError: They do not fit the objects or the training, or none is known.
    """
    y = as_sequence(y)
    require_same_length(objects, y)
    values = estimator.target_.encode(y)
    if np.isnan(values).all():
        raise DataError("y has no known value to test on", fix="Leave y out.")
    return result_columns(_names(estimator), values, estimator.target_)


def _labels(column: Column) -> list[str]:
    """Return the true values of a target as text; empty where unknown."""
    known = set(column.known().tolist())
    return [
        "" if row not in known else column.classes[int(value)] if column.classes else f"{value:.6g}"
        for row, value in enumerate(column.truth.tolist())
    ]
