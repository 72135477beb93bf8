"""Trees as brackets, tuples and graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from drawn_trees import T, U
from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import SubsetTreeKernel, TreeKernel
from representer.kernels.trees import read_trees, tree_of

TEXT = "(S (NP (D the) (N dog)) (VP barks))"
TUPLES = ("S", ("NP", ("D", "the"), ("N", ("dog",))), ["VP", "barks"])


def test_nodes_come_in_the_order_of_their_labels_and_children_in_theirs():
    tree = tree_of(TEXT)
    assert tree.nodes == ["S", "NP", "D", "the", "N", "dog", "VP", "barks"]
    assert tree.edge_index.tolist() == [[1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 1, 4, 0, 6]]


def test_brackets_and_tuples_are_the_same_tree():
    assert tree_of(TUPLES).nodes == tree_of(TEXT).nodes
    assert torch.equal(tree_of(TUPLES).edge_index, tree_of(TEXT).edge_index)
    np.testing.assert_allclose(TreeKernel(3)([TEXT], [TUPLES]), TreeKernel(3)([TEXT]))


def test_a_directed_graph_of_labels_is_the_same_tree():
    made = nx.DiGraph()
    tree = tree_of(TEXT)
    made.add_nodes_from((v, {"x": label}) for v, label in enumerate(tree.nodes))
    made.add_edges_from(tree.edge_index.T.tolist())
    assert SubsetTreeKernel()([made], [TEXT]) == SubsetTreeKernel()([TEXT])


def test_a_word_and_the_outer_brackets_of_a_treebank_are_trees():
    assert tree_of("word").nodes == ["word"]
    assert tree_of("( (S (NP dogs)))").nodes == ["", "S", "NP", "dogs"]


def test_deep_trees_do_not_end_the_recursion():
    assert len(tree_of("(a " * 5000 + "b" + ")" * 5000)) == 5001


@pytest.mark.parametrize(
    "text", ["(S (NP", "S NP", "(S x) (y)", "(S ())", ")(", "", "()", "(S x))", "S)"]
)
def test_brackets_that_are_no_tree_are_refused(text):
    with pytest.raises(ArgumentError, match=r"X\[0\] is .*one tree with a label"):
        TreeKernel()([text])


@pytest.mark.parametrize("tree", [(), ("S", ()), (("S", "x"), "y")])
def test_tuples_without_a_label_are_refused(tree):
    with pytest.raises(ArgumentError, match=r"X\[0\] is .*tuples \(label, child"):
        TreeKernel()([tree])


def test_labels_must_be_hashable():
    with pytest.raises(KindError, match="a label of X"):
        TreeKernel()([("S", {"a": 1})])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [1, 0]], r"X\[1\].edge_index is 'a cycle above node 0'"),
        ([[2, 2], [0, 1]], r"X\[1\].edge_index of node 2 is 'the parents \[0, 1\]'"),
        ([[2], [7]], r"X\[1\].edge_index\[1, 0\] is 7"),
    ],
)
def test_graphs_that_are_no_trees_are_refused_by_their_index(edges, message):
    with pytest.raises(ArgumentError, match=message):
        TreeKernel()([T, Data(x=torch.ones(3, 2), edge_index=torch.tensor(edges))])


def test_a_single_tree_is_to_be_put_into_a_list():
    for tree in (TEXT, T):
        with pytest.raises(KindError, match="a list"):
            TreeKernel()(tree)
    with pytest.raises(KindError, match="int"):
        TreeKernel()(5)


def test_a_batch_is_its_trees():
    assert torch.equal(TreeKernel()(Batch.from_data_list([T, U])), TreeKernel()([T, U]))


def test_positions_of_children_are_those_of_the_edges_unless_they_are_given():
    trees = read_trees([T, Data(x=U.x, edge_index=U.edge_index, position=torch.eye(2, 3) / 2)])
    assert trees.items[0].edges.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert trees.items[1].edges.tolist() == [[0.5, 0, 0], [0, 0.5, 0]]
    with pytest.raises(ShapeError, match=r"X\[0\].position has shape \(3, 2\)"):
        read_trees([Data(x=U.x, edge_index=U.edge_index, position=torch.zeros(3, 2))])


def test_numbers_and_labels_are_not_mixed():
    with pytest.raises(KindError, match="numbers"):
        TreeKernel()([T], [TEXT])
