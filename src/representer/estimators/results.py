"""Predictions and targets of estimators as the metrics of ``representer.report`` take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from representer.estimators.classes import Classes
from representer.estimators.conformal import Conformal
from representer.estimators.explanation import KERNEL, NETWORK, Part
from representer.estimators.targets import Numbers, Target, columns_of
from representer.report.results import Column, Predictions, shown


def classes_of(target: Target) -> list[list[str]]:
    """Return the names of the classes of each target as text; none for numbers."""
    columns = columns_of(target)
    return [[str(name) for name in one.names] for one in columns if isinstance(one, Classes)]


def result_columns(names: Sequence[str], values: NDArray[Any], target: Target) -> list[Column]:
    """Return each target.

    Args:
        names: Their names; none for a single target without a name.
        values: Encoded labels ``(N,)`` or ``(N, K)``.
        target: What is predicted.
    """
    table = values.reshape(len(values), -1)
    classes = classes_of(target) or [[]] * table.shape[1]
    return [
        Column(name, table[:, k], own)
        for k, (name, own) in enumerate(zip(names or [""], classes, strict=True))
    ]


def predictions_of(estimator: Any, objects: Sequence[Any]) -> list[Predictions]:
    """Return an estimator's predictions of each target.

    Raises:
        DataError: They are not finite.
    """
    conformal: Conformal | None = estimator.conformal_
    if isinstance(estimator.target_, Numbers):
        mean, deviation = estimator.predict(objects, return_std=True)
        table = deviation.reshape(len(deviation), -1)
        halves = [None] * table.shape[1] if conformal is None else conformal.half_widths(table).T
        columns = (mean.reshape(len(mean), -1).T, table.T, halves)
        return [
            Predictions(own, deviations=off, half_widths=half)
            for own, off, half in zip(*columns, strict=True)
        ]
    chances = estimator.predict_proba(objects)
    tables = chances if isinstance(chances, list) else [chances]
    sets = [None] * len(tables) if conformal is None else conformal.sets(tables)
    return [
        Predictions(table.argmax(axis=1), table, sets=own)
        for table, own in zip(tables, sets, strict=True)
    ]


def explanations_of(
    estimator: Any,
    objects: Sequence[Any],
    predictions: Sequence[Predictions],
    numbers: Sequence[int],
    noun: str,
    top: int,
    targets: Sequence[str] = (),
    truths: Sequence[Any] = (),
) -> list[dict[str, Any]]:
    """Return the explanation of each object, as in explanations.json, with its true value if known.

    Raises:
        KindError: Its predictions have no contributions.
    """
    names = (classes_of(estimator.target_) or [[]])[0]
    first = f"{targets[0]}: " if len(targets) > 1 else ""
    estimator, entries = estimator._on_cpu(), []
    for i, explanation in enumerate(estimator.explain(objects, top)):
        entry = explanation.entry(noun, numbers[i], first + shown(predictions[0], i, names))
        known = {"truth": str(truths[i])} if len(truths) else {}
        entries.append(entry | known | estimator._explanation_details(objects[i], explanation))
    return entries


def explain_rows(
    estimator: Any,
    objects: Sequence[Any],
    predictions: Sequence[Predictions],
    rows: Sequence[int],
    noun: str,
    top: int,
    targets: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the explanations of the objects in some rows, which they are numbered by."""
    at = np.asarray(rows, dtype=np.intp)
    own = [one.at(at) for one in predictions]
    chosen = [objects[row] for row in rows]
    return explanations_of(estimator, chosen, own, rows, noun, top, targets) if chosen else []


def parameter_counts(estimator: Any, names: Mapping[str, str] | None = None) -> dict[str, int]:
    """Return the number of parameters of the kernel, of each submodule by name, and ``"all"``."""
    network: nn.Module | None = estimator.network_
    counts = {}
    for name, part in () if network is None else (*network.named_children(), ("all", network)):
        if size := sum(p.numel() for p in part.parameters()):
            counts[(names or {}).get(name, name)] = size
    counts = counts or {"all": 0}
    if not (machines := estimator._machines):
        return counts
    size = sum(machine.size for machine in machines)
    return {KERNEL: size} | counts | {"all": counts["all"] + size}


def model_name(parts: Mapping[str, Part], network: str) -> str:
    """Return the name of what predicts: the parts that were not dropped."""
    return " + ".join(
        network if name == NETWORK else name for name, part in parts.items() if part.share > 0
    )
