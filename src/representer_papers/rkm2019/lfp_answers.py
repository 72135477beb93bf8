"""What the models of several seeds answer together: the mean of their probabilities.

A window of a subject is answered by models alone that were trained without that subject, whatever
groups the folds of a seed leave out.
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


def described(of: Recordings, rows: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Return the answers for windows as JSON holds them.

    Args:
        of: The recordings.
        rows: The numbers of the windows, in rising order.
        probabilities: Of each class ``(rows, classes)``.
    """
    return {
        "subjects": of.subjects[rows].tolist(),
        "labels": of.labels[rows].tolist(),
        "probabilities": probabilities.round(6).tolist(),
    }


def averaged(runs: _Runs) -> dict[str, float] | None:
    """Return each subject's accuracy if the seeds answer together.

    None where there are fewer than two, or where some answered other windows or were run before
    answers were kept.
    """
    found = [run[KEY] for run in runs.values() if KEY in run]
    windows = [(own["subjects"], own["labels"]) for own in found]
    if len(found) < max(2, len(runs)) or any(of != windows[0] for of in windows):
        return None
    chances = np.mean([own["probabilities"] for own in found], axis=0)
    subjects, labels = np.asarray(found[0]["subjects"]), np.asarray(found[0]["labels"])
    right = chances.argmax(axis=1) == labels
    return {str(s): float(right[subjects == s].mean()) for s in dict.fromkeys(subjects.tolist())}


def together(rows: Mapping[str, _Runs]) -> dict[str, dict[str, float]]:
    """Return `averaged` of each row that has it, the best first."""
    found = {row: averaged(runs) for row, runs in rows.items()}
    known = {row: by_subject for row, by_subject in found.items() if by_subject is not None}
    order = sorted(known, key=lambda row: -statistics.mean(known[row].values()))
    return {row: known[row] for row in order}
