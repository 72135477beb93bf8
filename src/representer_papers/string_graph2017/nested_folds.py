"""Nested cross-validation on Gram matrices: inner folds select the kernel, outer folds test it.

Each repeat has ten outer folds. The first repeat uses those of the data set's file, the others use
random stratified folds. Test folds take no part in the selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

OUTER = 10
COSTS = (1.0, 10.0, 100.0, 1000.0)
STEPS = 100_000  # limit of the solver; with overlapping classes, a high cost would take far more


class Fold(NamedTuple):
    """The numbers of the training and test graphs of a fold."""

    train: np.ndarray
    test: np.ndarray


def outer_folds(labels: np.ndarray, given: np.ndarray, repeat: int) -> list[Fold]:
    """Return the outer folds: those of the file in repeat 0, random ones seeded by other repeats.

    ``given`` is the test fold of each graph in the file, 0 for none.
    """
    if repeat == 0:
        numbers = range(1, OUTER + 1)
        return [Fold(np.flatnonzero(given != k), np.flatnonzero(given == k)) for k in numbers]
    drawn = StratifiedKFold(OUTER, shuffle=True, random_state=repeat).split(labels, labels)
    return [Fold(train, test) for train, test in drawn]


def inner_accuracies(
    K: np.ndarray, labels: np.ndarray, train: np.ndarray, folds: int, repeat: int
) -> list[float]:
    """Return the mean accuracy over the inner folds with each of `COSTS`.

    ``K`` is the Gram matrix of all graphs, ``train`` the training graphs of the outer fold.
    """
    inner = StratifiedKFold(folds, shuffle=True, random_state=repeat)
    accuracies = []
    for fit, check in inner.split(train, labels[train]):
        fold = Fold(train[fit], train[check])
        accuracies.append([right / len(check) for right in _counts(K, labels, fold, COSTS)])
    return np.mean(accuracies, axis=0).tolist()


def count_correct(K: np.ndarray, labels: np.ndarray, fold: Fold, cost: float) -> int:
    """Return the number of test graphs that an SVM trained on the fold classifies correctly."""
    return _counts(K, labels, fold, [cost])[0]


def best(accuracies: Mapping[str, list[float]]) -> tuple[str, float, float]:
    """Return the kernel and cost with the highest inner accuracy, and that accuracy.

    ``accuracies`` has those of each kernel with each of `COSTS`; the first of equals wins.
    """
    candidates = [
        (name, cost, accuracy)
        for name, row in accuracies.items()
        for cost, accuracy in zip(COSTS, row, strict=True)
    ]
    return max(candidates, key=lambda candidate: candidate[2])


def _counts(K: np.ndarray, labels: np.ndarray, fold: Fold, costs: Sequence[float]) -> list[int]:
    inside, across = K[np.ix_(fold.train, fold.train)], K[np.ix_(fold.test, fold.train)]
    counts = []
    for cost in costs:
        svm = SVC(C=cost, kernel="precomputed", max_iter=STEPS)
        svm.fit(inside, labels[fold.train])
        counts.append(int((svm.predict(across) == labels[fold.test]).sum()))
    return counts
