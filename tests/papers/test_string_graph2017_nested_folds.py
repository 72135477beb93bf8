"""Nested folds: selection on inner folds, tests on outer folds."""

from __future__ import annotations

import numpy as np
import pytest

from representer_papers.string_graph2017 import graph_kernels
from representer_papers.string_graph2017.graph_kernels import (
    COSTS,
    best,
    count_correct,
    inner_accuracies,
)
from representer_papers.string_graph2017.graph_sets import outer_folds


@pytest.fixture(scope="session")
def labels():
    return np.arange(60) % 2


def gram(labels, noise=0.3):
    points = np.random.default_rng(0).normal(size=(len(labels), 3)) * noise
    points[:, 0] += labels
    return points @ points.T


def test_the_first_repeat_uses_the_given_folds(labels):
    given = np.arange(60) % 11
    folds = outer_folds(labels, given, 0)
    assert [set(given[fold.test]) for fold in folds] == [{k} for k in range(1, 11)]
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(60))
        assert set(np.flatnonzero(given == 0)) <= set(fold.train)


def test_other_repeats_use_random_stratified_folds(labels):
    one, again, other = (outer_folds(labels, np.zeros(60), r) for r in (1, 1, 2))
    assert sorted(np.concatenate([fold.test for fold in one])) == list(range(60))
    assert all(labels[fold.test].sum() == 3 for fold in one)
    assert [fold.test.tolist() for fold in one] == [fold.test.tolist() for fold in again]
    assert [fold.test.tolist() for fold in one] != [fold.test.tolist() for fold in other]


def test_test_labels_do_not_affect_the_selection(labels):
    K, fold = gram(labels), outer_folds(labels, np.arange(60) % 10 + 1, 0)[3]
    accuracies = inner_accuracies(K, labels, fold.train, 3, 0)
    K[fold.test] = K[:, fold.test] = np.nan
    others = labels.copy()
    others[fold.test] = 1 - others[fold.test]
    assert inner_accuracies(K, others, fold.train, 3, 0) == accuracies
    assert len(accuracies) == len(COSTS)
    assert max(accuracies) > 0.8


def test_inner_accuracies_are_measured_on_held_out_graphs(labels):
    apart = np.eye(60)  # every graph is like itself alone
    assert max(inner_accuracies(apart, labels, np.arange(60), 3, 0)) <= 0.5


def test_count_correct_counts_correct_test_predictions(labels):
    fold = outer_folds(labels, np.arange(60) % 10 + 1, 0)[0]
    assert count_correct(gram(labels, 0.01), labels, fold, 10.0) == len(fold.test)
    wrong = labels.copy()
    wrong[fold.test] = 1 - wrong[fold.test]
    assert count_correct(gram(labels, 0.01), wrong, fold, 10.0) == 0


def test_ties_select_the_simplest_kernel():
    accuracies = {"a": [0.5, 0.8, 0.8, 0.7], "b": [0.8, 0.1, 0.8, 0.8]}
    assert best(accuracies) == ("a", 10.0, 0.8)
    assert best({"a": [0.1] * 4, "b": [0.1, 0.1, 0.1, 0.2]}) == ("b", 1000.0, 0.2)


def test_the_svm_gets_every_cost_and_the_limit_of_steps(labels, monkeypatch):
    seen = []

    class Machine:
        def __init__(self, C, kernel, max_iter):
            seen.append((C, kernel, max_iter))

        def fit(self, K, y):
            return self

        def predict(self, K):
            return np.zeros(len(K))

    monkeypatch.setattr(graph_kernels, "SVC", Machine)
    shares = inner_accuracies(gram(labels), labels, np.arange(40), 2, 0)
    assert seen == [(cost, "precomputed", 100_000) for cost in COSTS] * 2
    assert shares == [0.5] * 4
    assert graph_kernels.COSTS == COSTS
