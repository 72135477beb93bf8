"""Objects of kernels: sequences, tokens and trees."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from drawn_trees import T, U
from representer import kernels
from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    Polynomial,
    RecurrentKernel,
    StringKernel,
    SubsetTreeKernel,
    TreeKernel,
)
from representer.kernels.composition import KIND, from_plain, to_plain
from representer.kernels.overlaps import ColorCounts, NumberSpace, overlap
from representer.kernels.sequences import Numbered
from representer.kernels.tree_kernels import read_trees, tree_of

k = RecurrentKernel()
a = torch.randn(4, 3)


def test_a_batch_of_equal_lengths_is_a_list_of_sequences():
    batch = torch.randn(5, 4, 3)
    torch.testing.assert_close(k(batch), k(list(batch)))


@pytest.mark.parametrize(("X", "Y", "error", "message"), [
    ("ab", None, KindError, r"X is str; expected a list of sequences"),
    (3, None, KindError, r"X is int; expected a list of sequences"),
    (a, None, ShapeError, r"X\[0\] has shape \(3,\).*Put a single sequence into a list"),
    ([a[None]], None, ShapeError, r"X\[0\] has shape \(1, 4, 3\); expected \(time, features\)"),
    ([a[:, :0]], None, ShapeError, r"X\[0\] has shape \(4, 0\); expected \(time, features\)"),
    ([a, a[:, :2]], None, ShapeError, r"X\[1\] has shape \(4, 2\); expected \(time, 3\)"),
    ([a], [a[:, :2]], ShapeError, r"Y\[0\] has shape \(4, 2\); expected \(time, 3\)"),
    ([a.int()], None, KindError, r"X\[0\] is torch.int32; expected a floating-point dtype"),
    ([a, a.double()], None, KindError, r"X\[1\] is torch.float64; expected torch.float32"),
    ([a], [a.double()], KindError, r"Y\[0\] is torch.float64; .*Use Y\[0\].to"),
    ([a, a.numpy()], None, KindError, r"X\[1\] is ndarray; expected a tensor"),
    ([a.numpy()], [a], KindError, r"Y\[0\] is Tensor; expected an array or nested lists"),
    (["ab"], None, KindError, r"X\[0\] is str; expected a tensor, an array or nested lists"),
    ([[[1], [1, 2]]], None, KindError, r"X\[0\] is list; expected a tensor, an array"),
    ([None], None, KindError, r"X\[0\] is NoneType; expected a tensor, an array"),
])  # fmt: skip
def test_invalid_sequences_are_rejected(X, Y, error, message):
    with pytest.raises(error, match=message):
        k(X, Y)


def test_an_array_is_copied_before_it_becomes_a_tensor():
    x = np.ones((2, 3))
    x.setflags(write=False)  # torch warns about read-only arrays
    assert k([x]).shape == (1, 1)


KERNELS = {
    "recurrent": k,
    "recurrent, n-grams": RecurrentKernel("relu", filter_length=2, check_mercer=False),
    "string": StringKernel(order=2),
    "string, of trigrams, normalized": StringKernel(order=3, combine="add", normalized="exact"),
    "string, base kernel": StringKernel(base=Gaussian()),
    "deep": DeepStringKernel(orders=(2, 1), decay=0.1),
    "sum": StringKernel() + RecurrentKernel(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_an_empty_sequence_has_no_n_gram_so_its_kernel_is_zero(name):
    kernel, full = KERNELS[name], [0.1 * torch.rand(n, 2).double() for n in (3, 4)]
    empty = torch.zeros(0).double()
    own, batch = kernel(full), kernel([empty, *full])
    torch.testing.assert_close(batch[1:, 1:], own)
    assert not batch[0].any()
    assert not batch[:, 0].any()
    torch.testing.assert_close(kernel.diag([empty, *full]), batch.diagonal())
    for X, Y in (([empty], full), (full, [empty]), ([empty], [empty])):
        assert kernel(X, Y).tolist() == [[0.0] * len(Y)] * len(X)
    lists = [one.tolist() for one in full]
    for X, Y in (([[]], lists), (lists, [[]]), ([[], []], [[]])):
        assert kernel(X, Y).tolist() == [[0.0] * len(Y)] * len(X)


@pytest.mark.parametrize("name", KERNELS)
def test_the_gram_matrix_of_no_sequences_is_empty(name):
    kernel, full = KERNELS[name], [0.1 * torch.rand(n, 2) for n in (3, 4)]
    for X, Y, shape in (([], full, (0, 2)), (full, [], (2, 0))):
        assert kernel(X, Y).shape == shape
        assert kernel(X, Y).dtype is torch.float32
        assert kernel([x.tolist() for x in X], [y.tolist() for y in Y]).dtype == np.float64
    assert kernel([]).shape == kernel([], []).shape == (0, 0)
    assert kernel.diag([]).shape == (0,)
    assert kernel(torch.zeros(0, 3, 2), full).shape == (0, 2)


# Trees as brackets, tuples and graphs.


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


@pytest.mark.parametrize(("X", "error", "message"), [
    *(([text], ArgumentError, r"X\[0\] is .*one tree with a label")
      for text in ("(S (NP", "S NP", "(S x) (y)", "(S ())", ")(", "", "()", "(S x))", "S)")),
    *(([tree], ArgumentError, r"X\[0\] is .*tuples \(label, child")
      for tree in ((), ("S", ()), (("S", "x"), "y"))),
    (["(" * 99], ArgumentError, r"X\[0\] is '\({57}…'"),
    ([("S", {"a": 1})], KindError, "a label of X"),
    *(([T, Data(x=torch.ones(3, 2), edge_index=torch.tensor(edges))], ArgumentError, message)
      for edges, message in (
          ([[0, 1], [1, 0]], r"X\[1\].edge_index is 'a cycle above node 0'"),
          ([[2, 2], [0, 1]], r"X\[1\].edge_index of node 2 is 'the parents \[0, 1\]'"),
          ([[2], [7]], r"X\[1\].edge_index\[1, 0\] is 7"))),
    (TEXT, KindError, "a list"), (T, KindError, "a list"), (5, KindError, "int"),
])  # fmt: skip
def test_invalid_trees_are_rejected(X, error, message):
    with pytest.raises(error, match=message):
        TreeKernel()(X)


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


# Kernels as plain values, for files.


EXPRESSIONS = [
    StringKernel(3, 0.25, trailing=False, base=Gaussian(0.5)),
    2.5 * StringKernel(1) + StringKernel(2).cosine() * StringKernel(1, 0.1),
    (StringKernel(2) ** 3).activated(Polynomial(2, offset=0.5)),
    RecurrentKernel("linear", static_gates=(0.7, 0.9)),
    kernels.DeepStringKernel((2, 3), (0.5, 0.25), activation=kernels.Linear()),
]


@pytest.mark.parametrize("kernel", EXPRESSIONS, ids=repr)
def test_a_kernel_comes_back_from_json(kernel):
    again = from_plain(json.loads(json.dumps(to_plain(kernel))))
    assert repr(again) == repr(kernel)
    x = [torch.rand(6, 2, dtype=torch.float64) * 0.3 for _ in range(3)]
    torch.testing.assert_close(again(x), kernel(x), rtol=0, atol=0)


def test_a_learned_number_is_saved_as_its_value():
    kernel = StringKernel(2, torch.tensor(0.25, requires_grad=True))
    assert from_plain(to_plain(kernel)).decay == 0.25


def test_what_files_cannot_hold_is_named():
    with pytest.raises(ArgumentError, match=r"RecurrentKernel\.q"):
        to_plain(RecurrentKernel(torch.exp))
    with pytest.raises(ArgumentError, match="Custom"):
        to_plain(type("Custom", (StringKernel,), {})())


@pytest.mark.parametrize(
    "values",
    [{}, {KIND: "GramTransformer"}, {KIND: "os"}, {KIND: "StringKernel", "orders": 2}],
    ids=str,
)
def test_damaged_values_are_refused(values):
    with pytest.raises(ValueError, match=r"names no kernel|orders"):
        from_plain(values)


# Counts that objects share, and a kernel of numbers with exact parts.


RNG = np.random.default_rng(0)


def test_common_counts_are_sums_of_minima_and_divide_into_colors():
    colors = [RNG.integers(0, 4, size) for size in (3, 0, 7, 5)]
    counts = ColorCounts.of(colors, 4)
    plain = np.array([np.bincount(own, minlength=4) for own in colors])
    common = np.minimum(plain[:, None], plain[None]).sum(-1)
    assert np.array_equal(counts.common(counts), common)
    weights = RNG.normal(size=4)
    parts = counts.at(np.array([2])).parts(counts, weights)
    assert sum(parts.values()) == pytest.approx(common[2] @ weights)
    of_colors = np.minimum(plain[2], plain).T @ weights
    for color, value in parts.items():
        assert value == pytest.approx(of_colors[color])
    sizes = counts.sizes[:, None], counts.sizes
    assert overlap(common.astype(float), *sizes)[1].tolist() == [0, 1, 0, 0]
    assert overlap(common.astype(float), *sizes, "assignment")[1].tolist() == [0, 1, 0, 0]


def test_numbers_are_standardized_and_unknown_ones_are_average():
    table = np.column_stack([RNG.normal(5, 2, 50), np.full(50, 7.0), RNG.normal(size=50)])
    table[0, 2] = np.nan
    space = NumberSpace.find(table)
    z = space.encode(table)
    assert z[0, 2] == 0
    assert (z[:, 1] == 0).all()  # a constant tells nothing
    assert space.encode(np.array([[1e9, 8.0, -np.inf]])).tolist() == [[3.0, 0.0, -3.0]]
    apart = ((z[:, None] - z[None]) ** 2).sum(-1)
    assert np.median(apart[np.triu_indices(50, 1)]) == pytest.approx(space.width)
    np.testing.assert_allclose(space.overlaps(z, z), np.exp(-apart / space.width), atol=1e-12)


@pytest.mark.parametrize("different", [0, 1, 2])
def test_the_width_is_that_of_objects_that_differ_where_most_are_equal(different: int):
    table = np.full((20, 2), 0.1)
    table[:different] += np.arange(1, 1 + different)[:, None]
    space = NumberSpace.find(table)
    z = space.encode(table)
    overlaps = space.overlaps(z, z)
    assert (overlaps[different:, different:] == 1).all()
    assert (overlaps[:different, different:] < 0.7).all()


def test_the_parts_of_numbers_sum_to_the_difference_from_the_average():
    space = NumberSpace.find(RNG.normal(size=(30, 5)))
    others, coefficients = space.encode(RNG.normal(size=(30, 5))), RNG.normal(size=30)
    z = space.encode(RNG.normal(size=(1, 5)))[0]
    first, parts = space.parts(z, others, coefficients)
    total = (space.overlaps(z[None], others) @ coefficients)[0]
    assert first == pytest.approx((space.overlaps(0 * z[None], others) @ coefficients)[0])
    assert first + parts.sum() == pytest.approx(total, abs=1e-14)
    # a number that no other changes with has what it changes alone
    only = np.array([z[0], 0, 0, 0, 0])
    parts = space.parts(only, others, coefficients)[1]
    assert (parts[1:] == 0).all()


# Tokens and codes as numbers.


def test_characters_of_words_are_numbered_as_in_strings():
    words = ["ab", "b", "", "\U0001f600"]
    found, expected = Numbered.of_characters(words), Numbered.of(f" {word} " for word in words)
    assert found.tokens == expected.tokens
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.lengths, expected.lengths)


def test_lists_are_the_sequences():
    sequences = [["a", "b", "a"], [], ["c"]]
    assert Numbered.of(sequences).lists() == sequences
    assert Numbered.of(sequences).lists([7, 8, 9]) == [[7, 8, 7], [], [9]]
