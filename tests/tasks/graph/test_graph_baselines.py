"""The kernel baseline learns what a constant prediction cannot."""

from __future__ import annotations

import numpy as np
import pytest

from representer.tasks import graph as module
from representer.tasks.graph import graph_baselines, rings_and_chains


def test_rings_are_told_from_chains():
    demo = rings_and_chains()
    values = np.array([label == "ring" for label in demo.labels], dtype=np.int64)
    train, test = demo.objects[:100], demo.objects[100:140]
    kernel, constant = graph_baselines(train, values[:100], test, is_regression=False)
    assert (kernel.predictions == values[100:140]).mean() > 0.9
    assert (constant.predictions == values[100:140]).mean() == 0.5
    assert "5-fold cross-validation" in kernel.description


def test_the_fraction_of_leaves_is_predicted_better_than_by_the_mean():
    graphs = rings_and_chains().objects
    degrees = [np.bincount(graph.edge_index[1]) for graph in graphs]
    values = np.array([(degree == 1).mean() for degree in degrees])
    kernel, constant = graph_baselines(graphs[:80], values[:80], graphs[80:], is_regression=True)
    errors = [np.abs(own.predictions - values[80:]).mean() for own in (kernel, constant)]
    assert errors[0] < errors[1] / 2
    assert constant.predictions[0] == values[:80].mean()


def test_a_class_with_one_graph_leaves_no_folds_and_many_graphs_no_gram_matrix(
    monkeypatch: pytest.MonkeyPatch,
):
    graphs, values = rings_and_chains().objects, np.array([0] * 9 + [1])
    kernel, _ = graph_baselines(graphs[:10], values, graphs[:5], is_regression=False)
    assert "cross-validation" not in kernel.description
    monkeypatch.setattr(module, "MOST", 9)
    assert len(graph_baselines(graphs[:10], values, graphs[:5], is_regression=False)) == 1
