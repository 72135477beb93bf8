"""Nested cross-validation on Gram matrices: the inner folds choose the kernel, the outer ones test.

Each repeat has ten outer folds. The first repeat has those of the data set's file; the others are
drawn anew, with equal shares of the classes. Nothing of a test fold takes part in a choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

OUTER = 10
COSTS = (1.0, 10.0, 100.0, 1000.0)
STEPS = 100_000  # at most, of the solver; where classes overlap, a high cost takes many times more


class Fold(NamedTuple):
    """The graphs of an outer fold, by number."""

    train: np.ndarray
    test: np.ndarray


def outer_folds(labels: np.ndarray, given: np.ndarray, repeat: int) -> list[Fold]:
    """Return the outer folds.

    Args:
        labels: The class of each graph.
        given: The number of its test fold in the file, 0 for none.
        repeat: 0 for the folds given, others for folds that are drawn.
    """
    from sklearn.model_selection import StratifiedKFold

    if repeat == 0:
        return [Fold(np.flatnonzero(given != k), np.flatnonzero(given == k)) for k in _numbers()]
    drawn = StratifiedKFold(OUTER, shuffle=True, random_state=repeat).split(labels, labels)
    return [Fold(train, test) for train, test in drawn]


def inner_accuracies(
    K: np.ndarray, labels: np.ndarray, train: np.ndarray, folds: int, repeat: int
) -> list[float]:
    """Return the mean accuracy over the inner folds with each of `COSTS`.

    Args:
        K: The Gram matrix of all graphs.
        labels: The class of each.
        train: The graphs that may be used.
        folds: How many inner folds.
        repeat: Their shuffling depends on it.
    """
    from sklearn.model_selection import StratifiedKFold

    inner = StratifiedKFold(folds, shuffle=True, random_state=repeat)
    found = []
    for fit, check in inner.split(train, labels[train]):
        fold = Fold(train[fit], train[check])
        found.append([right / len(check) for right in _right(K, labels, fold, COSTS)])
    return np.mean(found, axis=0).tolist()


def right_answers(K: np.ndarray, labels: np.ndarray, fold: Fold, cost: float) -> int:
    """Return how many graphs of the test part a machine trained on the other answers rightly."""
    return _right(K, labels, fold, [cost])[0]


def best(accuracies: Mapping[str, list[float]]) -> tuple[str, float, float]:
    """Return the kernel, the cost and the accuracy that the inner folds choose.

    Args:
        accuracies: Of each kernel, with each of `COSTS`. Of equals the first is taken.
    """
    found = [(name, cost, a) for name, row in accuracies.items() for cost, a in _costs(row)]
    return max(found, key=lambda candidate: candidate[2])


def _right(K: np.ndarray, labels: np.ndarray, fold: Fold, costs: Sequence[float]) -> list[int]:
    from sklearn.svm import SVC

    inside, across = K[np.ix_(fold.train, fold.train)], K[np.ix_(fold.test, fold.train)]
    found = []
    for cost in costs:
        machine = SVC(C=cost, kernel="precomputed", max_iter=STEPS)
        machine.fit(inside, labels[fold.train])
        found.append(int((machine.predict(across) == labels[fold.test]).sum()))
    return found


def _costs(row: list[float]) -> zip[tuple[float, float]]:
    return zip(COSTS, row, strict=True)


def _numbers() -> range:
    return range(1, OUTER + 1)
