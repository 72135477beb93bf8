"""The test objects that a report explains: a few typical ones, and the worst errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from representer.errors import KindError
from representer.estimators.report_page import EXPLAINED_ERRORS
from representer.report.results import Column, Predictions, mistakes, worst
from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_results import Trained

EXAMPLES, LINES = 4, 6
SMALL = 60  # words, or nodes: larger objects are not explained without being asked for


def explained_tests(task: Any, run: RunFolder, trained: Trained) -> dict[str, Any]:
    """Return explanations of test objects for details.json.

    Returns:
        ``examples``, typical ones, and ``mistakes``, of which the first are explained; none are if
        the predictions of the model have no contributions.
    """
    data, test = trained.data, trained.data.parts["test"]
    column, own = data.columns("test")[0], trained.outcome.predictions[0]
    sizes = [data.inputs.size(one) for one in data.encoded["test"]]
    labels = test.columns[0][1]
    if data.is_regression:
        labels = [f"{value:.4g}" for value in column.truth]
    wrong = mistakes(column, own, test.objects, labels, test.numbers)
    found = dict(zip(worst(column, own), wrong, strict=True))
    for row, mistake in found.items() if test.names else ():
        mistake["name"] = test.names[row]
    errors = [row for row in found if sizes[row] <= SMALL][:EXPLAINED_ERRORS]
    chosen = typical(column, own, sizes)
    try:
        entries = task.entries(run.path, trained.estimator, test.subset(chosen + errors), LINES)
    except KindError:
        return {"examples": [], "mistakes": wrong}
    for row, entry in zip(chosen + errors, entries, strict=True):
        entry["truth"] = str(labels[row])
    for row, entry in zip(errors, entries[len(chosen) :], strict=True):
        found[row]["explained"] = entry
    return {"examples": entries[: len(chosen)], "mistakes": wrong}


def typical(column: Column, predictions: Predictions, sizes: Sequence[int]) -> list[int]:
    """Return the positions of up to `EXAMPLES` objects of a readable size.

    Of classes, the first right ones of each class in turn; of numbers, from the smallest true value
    to the largest in even steps.
    """
    known = [row for row in column.known().tolist() if sizes[row] <= SMALL]
    known = known or column.known()[np.argsort(np.asarray(sizes)[column.known()])].tolist()[:1]
    if not column.classes:
        ordered = sorted(known, key=lambda row: column.truth[row])
        places = np.linspace(0, len(ordered) - 1, min(EXAMPLES, len(ordered)))
        return [ordered[place] for place in dict.fromkeys(places.round().astype(int).tolist())]
    right = [row for row in known if predictions.values[row] == column.truth[row]]
    by_class = [
        [row for row in right if column.truth[row] == k] for k in range(len(column.classes))
    ]
    turns = [own[turn] for turn in range(EXAMPLES) for own in by_class if turn < len(own)]
    return sorted((turns or known)[:EXAMPLES])
