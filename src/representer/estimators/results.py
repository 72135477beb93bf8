"""Predictions and targets of estimators as the metrics of ``representer.report`` take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from representer.errors import ArgumentError, DataError, KindError, plural
from representer.estimators.base import is_plain
from representer.estimators.explanation import KERNEL, NETWORK, Part, explanations_of
from representer.estimators.fitting import batch_size_for, monitored
from representer.estimators.label_sets import LabelSets, f1_scores, joined_labels
from representer.estimators.targets import (
    Numbers,
    Target,
    classes_of,
    columns_of,
    require_same_length,
)
from representer.kernels.sequences import as_sequence
from representer.report.metrics import accuracy_interval, effective_count
from representer.report.page import (
    Column,
    Predictions,
    Results,
    figures_by_target,
    mistakes,
    points,
    worst,
)
from representer.training.config import best_index
from representer.training.generators import fingerprint

if TYPE_CHECKING:
    from representer.estimators.base import Estimator
    from representer.estimators.supervised import SupervisedEstimator


def result_columns(names: Sequence[str], values: NDArray[Any], target: Target) -> list[Column]:
    """Return each target.

    A single target may have no name.
    """
    table = values.reshape(len(values), -1)
    classes = classes_of(target) or [[]] * table.shape[1]
    return [
        Column(name, table[:, k], names_of)
        for k, (name, names_of) in enumerate(zip(names or [""], classes, strict=True))
    ]


def sets_as_classes(
    columns: Sequence[Column], predictions: Sequence[Predictions]
) -> tuple[Column, Predictions]:
    """Return any number of labels an object as one target, whose classes are the sets of labels.

    A predicted set has the product of the probabilities of its labels. Columns and predictions are
    those of each label, with the classes no and yes.
    """
    names = [column.name for column in columns]
    tables = [np.stack([column.truth for column in columns], 1) > 0,
              np.stack([column.values for column in predictions], 1) > 0]  # fmt: skip
    sets, codes = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    truth, values = np.split(codes.reshape(-1), 2)
    classes = [joined_labels(names[k] for k in np.flatnonzero(labels)) for labels in sets]
    chances = np.ones(len(values))
    for of_target in predictions:
        if of_target.probabilities is not None:
            chances = chances * of_target.probabilities[np.arange(len(values)), of_target.values]
    return Column("", truth, classes), Predictions(values, chances=chances)


def right_sets(columns: Sequence[Column], predictions: Sequence[Predictions]) -> NDArray[np.bool_]:
    """Return which objects have all labels right ``(N,)``; see `sets_as_classes`."""
    pairs = zip(columns, predictions, strict=True)
    return np.all([column.truth == predicted.values for column, predicted in pairs], axis=0)


def figures_of_sets(
    columns: Sequence[Column], predictions: Sequence[Predictions], digests: Any
) -> dict[str, Any]:
    """Return ``micro_f1`` and ``macro_f1`` of any number of labels an object, and the accuracy.

    Right are objects whose labels are all right. Those of equal digests are copies.
    """
    right = right_sets(columns, predictions)
    interval, _ = accuracy_interval(right, effective_count(np.asarray(digests)))
    truth = np.stack([column.truth for column in columns], 1)
    scores = f1_scores(truth, np.stack([column.values for column in predictions], 1))
    return scores | {"count": len(right), "accuracy": float(right.mean()),
                     "accuracy_interval": list(interval)}  # fmt: skip


def explain_rows(
    estimator: Any, objects: Sequence[Any], predictions: Sequence[Predictions], rows: Sequence[int],
    noun: str, top: int, targets: Sequence[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the explanations of the objects in some rows, which they are numbered by."""
    chosen_rows = np.asarray(rows, dtype=np.intp)
    shown = [column.at(chosen_rows) for column in predictions]
    chosen = [objects[row] for row in rows]
    return explanations_of(estimator, chosen, shown, rows, noun, top, targets) if chosen else []


def parameter_counts(estimator: Any, names: Mapping[str, str] | None = None) -> dict[str, int]:
    """Return the number of parameters of the kernel, of each submodule by name, and ``"all"``."""
    network: nn.Module | None = estimator.network_
    counts = {}
    for name, module in () if network is None else (*network.named_children(), ("all", network)):
        if size := sum(p.numel() for p in module.parameters()):
            counts[(names or {}).get(name, name)] = size
    counts = counts or {"all": 0}
    if not (machines := estimator.machines_):
        return counts
    size = sum(machine.size for machine in machines)
    return {KERNEL: size} | counts | {"all": counts["all"] + size}


def model_name(parts: Mapping[str, Part], network: str) -> str:
    """Return the name of what predicts: the parts that were not dropped."""
    return " + ".join(
        network if name == NETWORK else name for name, half in parts.items() if half.share > 0
    )


# The report of a fitted estimator of objects, on the page that a run of ``fit`` has, too.

EXPLAINED_ERRORS = 3
_MOST_CLASSES = 20  # to list by name


def results_of(estimator: SupervisedEstimator, X: Any, y: Any, k: int, examples: int) -> Results:
    """Return what the report of an estimator shows; see `Estimator.report`."""
    target, noun, nouns = estimator.target_, estimator.noun, plural(estimator.noun)
    if X is None and y is not None:
        raise ArgumentError("X", None, f"the {nouns} that y belongs to")
    is_regression = isinstance(target, Numbers)
    problem = "regression" if is_regression else "classification"
    metrics, details = about(estimator, f"{problem} of {nouns}")
    details |= {"noun": noun, "nouns": nouns, "place": "row of X", "mistakes": [], "points": {}}
    wrong: list[int] = []
    details["data"] |= {"test": None, "sources": [], "labels": {}, "facts": _facts(estimator)}
    metrics |= {"kind": problem, **_training(estimator)}
    if machine := estimator.machine_:
        details["model"]["values"]["kernel"] = machine.description
    explained: list[dict[str, Any]] = []
    if X is not None:
        objects = estimator.checked_objects(X)
        predictions = estimator.predictions(objects)
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
    seconds = [half.seconds for half in parts.values()]
    name = model_name(parts, estimator.network_name)
    metrics = {
        "task": "estimator",
        "model": name,
        "test": None,
        "targets": [],
        "comparisons": [],
        "baselines": [],
        "verdict": "",
        "parts": {name: half._asdict() for name, half in parts.items()},
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
    if isinstance(estimator.target_, LabelSets):
        return [str(label) for label in estimator.target_.labels]
    count = len(columns_of(estimator.target_))
    return [f"y[:, {k}]" for k in range(count)] if count > 1 else []


def _columns(estimator: SupervisedEstimator, objects: Sequence[Any], y: Any) -> list[Column]:
    """Return the true values of each target."""
    y = as_sequence(y)
    require_same_length(objects, y)
    values = estimator.target_.encode(y)
    if np.isnan(values).all():
        raise DataError("y has no known value to test on", fix="Leave y out.")
    return result_columns(_names(estimator), values, estimator.target_)


def _labels(column: Column) -> list[str]:
    """Return the true values of a target as text; empty where unknown."""
    there = set(column.known().tolist())
    return [
        "" if row not in there else column.classes[int(value)] if column.classes else f"{value:.6g}"
        for row, value in enumerate(column.truth.tolist())
    ]
