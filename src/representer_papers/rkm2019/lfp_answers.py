"""Predictions of the ensemble over seeds: the mean of their models' probabilities.

Every window is predicted by models that were trained without its subject, whatever groups the
folds of a seed leave out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from representer.data.signals import Recordings

KEY = "answers"
_Runs = Mapping[int, Mapping[str, Any]]  # by seed


def described(
    recordings: Recordings, rows: np.ndarray, probabilities: np.ndarray
) -> dict[str, Any]:
    """Return the predictions for windows as JSON values.

    Args:
        recordings: The recordings.
        rows: Numbers of the windows, in ascending order.
        probabilities: Probability of each class ``(rows, classes)``.
    """
    return {
        "subjects": recordings.subjects[rows].tolist(),
        "labels": recordings.labels[rows].tolist(),
        "probabilities": probabilities.round(6).tolist(),
    }


def averaged(runs: _Runs) -> dict[str, float] | None:
    """Return each subject's accuracy with the ensemble over seeds.

    None if there are fewer than two seeds, or if some of them predicted other windows or have no
    stored predictions.
    """
    stored = [run[KEY] for run in runs.values() if KEY in run]
    windows = [(own["subjects"], own["labels"]) for own in stored]
    if len(stored) < max(2, len(runs)) or any(own != windows[0] for own in windows):
        return None
    probabilities = np.mean([own["probabilities"] for own in stored], axis=0)
    subjects, labels = np.asarray(stored[0]["subjects"]), np.asarray(stored[0]["labels"])
    right = probabilities.argmax(axis=1) == labels
    return {str(s): float(right[subjects == s].mean()) for s in dict.fromkeys(subjects.tolist())}


def together(rows: Mapping[str, _Runs]) -> dict[str, dict[str, float]]:
    """Return `averaged` of each row for which it is defined, the best first."""
    results = {row: averaged(runs) for row, runs in rows.items()}
    known = {row: by_subject for row, by_subject in results.items() if by_subject is not None}
    order = sorted(known, key=lambda row: -statistics.mean(known[row].values()))
    return {row: known[row] for row in order}
