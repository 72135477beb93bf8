"""The test windows that the report of a signal run explains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import Recordings
from representer.errors import KindError
from representer.estimators.results import explanations_of
from representer.report.results import Predictions
from representer.tasks.signal.signal_fold import FoldResult
from representer.tasks.signal.signal_loso import estimators_of

LINES, ERRORS = 6, 2


def explained_windows(
    recordings: Recordings, folder: Path, folds: Sequence[FoldResult]
) -> dict[str, Any]:
    """Return explanations of test windows for details.json, by the model of the first fold.

    Args:
        recordings: As the estimators take them.
        folder: Folder of the run.
        folds: Results of the folds.

    Returns:
        ``examples``, the first right window of each class, and ``mistakes``, the most confident
        errors; both empty if the predictions of the model have no contributions.
    """
    fold = folds[0]
    truth, chances = recordings.labels[fold.rows], fold.probabilities
    predicted = chances.argmax(axis=1)
    right = [np.flatnonzero((predicted == k) & (truth == k))[:1] for k in np.unique(truth)]
    wrong = np.flatnonzero(predicted != truth)
    wrong = wrong[np.argsort(-chances.max(axis=1)[wrong], kind="stable")][:ERRORS]
    at = np.concatenate([*right, wrong])
    if not len(at):
        return {}
    rows, found = fold.rows[at], Predictions(predicted[at], chances[at])
    (estimator,) = estimators_of(folder, folds[:1])
    labels = [recordings.classes[k] for k in truth[at]]
    try:
        entries = explanations_of(
            estimator, list(recordings.signals[rows]), [found], rows.tolist(), "window", LINES, (),
            labels,
        )  # fmt: skip
    except KindError:
        return {}
    for entry, row in zip(entries, rows, strict=True):
        entry["noun"] = f"subject {recordings.subjects[row]}, window"
        if recordings.channels:
            traces = zip(entry["traces"].items(), strict=True)
            names = dict(zip(entry["channels"], recordings.channels, strict=True))
            entry["traces"] = {names[name]: own for ((name, own),) in traces}
            entry["channels"] = list(recordings.channels)
    count = len(at) - len(wrong)
    return {
        "examples": entries[:count],
        "mistakes": [{"explained": entry} for entry in entries[count:]],
    }
