"""Graphs by a fair protocol: the tables of a page from the figures of some folds."""

from __future__ import annotations

import pytest


@pytest.fixture
def fair(bench):
    return bench("graphs_fair")


def test_a_column_joins_the_runs_that_have_it(fair):
    figures = {
        "both": {0: {"kernel": 80.0, "network": 70.0, "both": 81.0, "seconds": 9.0}},
        "kernel": {0: {"kernel": 80.0, "seconds": 2.0}, 1: {"kernel": 84.0, "seconds": 2.0}},
        "before": {0: {"network": 66.0, "seconds": 5.0}},
        "GIN": {0: {"GIN": 75.0, "seconds": 5.0}},
    }
    assert fair.column(figures, "kernel") == {0: 80.0, 1: 84.0}
    assert fair.column(figures, "network") == {0: 70.0}
    text = "\n".join(fair.page({"NCI1": figures}, {}))
    assert "| NCI1 | 82.0 (2) | 70.0 (1) | 81.0 (1) | 66.0 (1) | – | 75.0 (1) |" in text
    assert "80.0 ± 1.4" in text  # of GIN, as published


def test_an_interval_is_that_of_student(fair):
    assert fair.shown([80.0, 82.0, 84.0]) == "82.0 ± 5.0 (3)"  # 4.303 · 2 / √3
    assert fair.shown([80.0, 82.0]) == "81.0 (2)"
    assert fair.shown([]) == "–"


def test_the_validation_part_alone_selects_the_perceptron_on_counts(fair):
    from representer.estimators.graph_inputs import PlainGraph

    def part(start, flip):
        graphs, labels = [], []
        for row in range(start, start + 30):
            nodes = ("a",) * (1 + 4 * (row % 2)) + ("b",)
            graphs.append(PlainGraph(row, len(nodes), fair.np.zeros((2, 0), int), nodes, None))
            labels.append(str((row % 2) ^ flip))
        return fair.Part(graphs, fair.np.array(labels))

    fold = fair.Fold(part(0, 0), part(30, 0), part(60, 1))  # the test part is labeled wrongly
    assert fair.by_counts(fold)["counts"] < 10
