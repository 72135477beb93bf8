"""Shared by recipes: baselines, orders, stores of graphs."""

from __future__ import annotations

import json

import pytest
import torch
from torch_geometric.data import Batch, Data

from representer.tasks.text import FLOW
from representer.tasks.text_options import TextConfig
from representer_papers.shared.baselines import read_baselines, write_baselines
from representer_papers.shared.graph_store import GraphStore
from representer_papers.shared.table import order_lines

# The stored baselines of a split.


def test_stored_baselines_have_their_predictions_and_sizes(data, tmp_path):
    folder = data / "ag_news_csv"
    config = TextConfig(
        data=str(folder / "train.csv"), test=str(folder / "test.csv"), header=False, text="2,3",
        label="1", valid_fraction=0.2,
    )  # fmt: skip
    prepared, path = FLOW.prepare(config), tmp_path / "baselines.json"
    write_baselines(path, prepared)
    tfidf, svm, majority = read_baselines(path)
    assert "linear SVM" in svm.name
    # every text has a word that determines its class
    assert tfidf.predictions.tolist() == prepared.values["test"].tolist()
    assert len(set(majority.predictions.tolist())) == 1
    written = json.loads(path.read_text())
    assert written["sizes"] == {"train": 24, "valid": 6, "test": 10}
    assert written["baselines"][2]["accuracy"] == pytest.approx(0.5)


# Batches of a graph store equal those of PyG.


def graphs(has_features):
    generator = torch.Generator().manual_seed(0)
    made = []
    for nodes, edges in ((3, 4), (1, 0), (5, 9), (2, 2)):
        ends = torch.randint(nodes, (2, edges), generator=generator)
        features = torch.randint(2, (edges, 2), generator=generator).float()
        x = torch.randint(2, (nodes, 3), generator=generator).float()
        made.append(Data(x=x, edge_index=ends, edge_attr=features if has_features else None))
    return made


@pytest.mark.parametrize("has_features", [True, False])
@pytest.mark.parametrize("chosen", [[2, 0, 3], [1], [1, 1, 2], [3, 1, 0, 2]])
def test_a_batch_equals_that_of_pyg(has_features, chosen):
    made = graphs(has_features)
    store = GraphStore(GraphStore.of(made, torch.arange(4.0)).tensors())
    ours, theirs = store(chosen), Batch.from_data_list([made[i] for i in chosen])
    for name in ("x", "edge_index", "edge_attr", "batch"):
        first, second = getattr(ours, name), getattr(theirs, name)
        assert (first is None and second is None) or torch.equal(first, second), name
    assert ours.y.tolist() == chosen
    assert (len(store), store.features) == (4, 3)


# The comparison of rankings: correlation, pairs that differ, and when nothing is reported.


PAPER = {"A": 3.0, "B": 2.0, "C": 1.0}


def by_seed(**figures):
    return {cell: dict(enumerate(values)) for cell, values in figures.items()}


def test_a_single_seed_has_a_rank_correlation_and_no_test():
    (_, line) = order_lines("1-gram", PAPER, by_seed(A=[0.1], B=[0.2], C=[0.3]))
    assert "the paper's order is A > B > C; ours C > B > A" in line
    assert line.endswith("Spearman's rank correlation -1.00.")


def test_pairs_that_differ_are_counted_and_those_that_agree_with_the_paper():
    ours = by_seed(A=[0.9, 0.91, 0.92], B=[0.5, 0.52, 0.51], C=[0.501, 0.519, 0.513])
    (_, line) = order_lines("3-gram", PAPER, ours)
    assert "ours A > C > B" in line
    assert "correlation 0.50." in line
    assert "Of 3 pairs of cells, 2 differ by the paired t-test over 3 seeds (p < 0.05)" in line
    assert line.endswith(", 2 of them as in the paper.")


def test_a_difference_against_the_paper_does_not_count_as_agreement():
    ours = by_seed(A=[0.1, 0.11, 0.12], B=[0.5, 0.5, 0.5], C=[0.5, 0.5, 0.5])
    (_, line) = order_lines("3-gram", PAPER, ours)
    assert "2 differ" in line
    assert line.endswith(", 0 of them as in the paper.")


def test_a_tie_in_the_paper_agrees_with_no_difference():
    ours = by_seed(A=[0.9, 0.91, 0.92], B=[0.5, 0.52, 0.51], C=[0.7, 0.71, 0.72])
    (_, line) = order_lines("3-gram", {"A": 77.72, "B": 77.72, "C": 77.91}, ours)
    assert "3 differ" in line
    assert line.endswith(", 1 of them as in the paper.")


def test_seeds_are_paired_by_their_number():
    ours = {"A": {0: 0.10, 1: 0.50, 2: 0.90}, "B": {2: 0.89, 1: 0.488, 0: 0.09}}
    (_, line) = order_lines("x", {"A": 2.0, "B": 1.0}, ours)
    assert "1 differ" in line  # by 1, 1.2 and 1 points; in the listed order, by -79, 1.2 and 81


def test_nothing_is_reported_while_runs_are_missing():
    assert order_lines("1-gram", PAPER, by_seed(A=[0.1], B=[0.2])) == []
    assert order_lines("1-gram", PAPER, by_seed(A=[0.1], B=[0.2, 0.3], C=[0.3])) == []
    assert order_lines("1-gram", PAPER, by_seed(A=[], B=[], C=[])) == []
    assert order_lines("1-gram", {}, {}) == []


def test_nothing_is_reported_if_the_seeds_differ():
    ours = {"A": {0: 0.1, 1: 0.2}, "B": {1: 0.3, 2: 0.4}}
    assert order_lines("x", {"A": 2.0, "B": 1.0}, ours) == []


def test_one_cell_alone_has_no_order():
    assert order_lines("1-gram", {"a": 1.0}, by_seed(a=[2.0, 3.0])) == []


def test_cells_with_equal_means_have_no_order():
    assert order_lines("x", {"a": 2.0, "b": 1.0}, by_seed(a=[0.5], b=[0.5])) == []
    assert order_lines("x", {"a": 2.0, "b": 2.0}, by_seed(a=[0.5], b=[0.6])) == []
