"""The subtree kernel: its definition, features for graphs to come, parts by color, its file."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch_geometric.data import Data

from representer.errors import ArgumentError
from representer.kernels import WeisfeilerLehmanKernel, gram
from representer.kernels.graphs import Graph, Labels
from representer.kernels.subtree_kernel import SubtreeKernel
from representer.kernels.text_kernel import dense

NO_EDGES = torch.zeros(2, 0, dtype=torch.int64)
RNG = np.random.default_rng(0)


def graph() -> Graph:
    count, edges = int(RNG.integers(1, 8)), int(RNG.integers(0, 12))
    ends = torch.from_numpy(RNG.integers(0, count, (2, edges)))
    labels: Labels = ["ab"[i] for i in RNG.integers(0, 2, count)]
    return Graph(labels, ends, RNG.integers(0, 2, edges).tolist())


def both_ways(one: Graph) -> tuple[Graph, Graph]:
    return one, Graph(one.nodes, one.edge_index.flip(0), one.edges)


def path_of_letters(word: str) -> tuple[Graph]:
    return (Graph([*word], torch.tensor([range(len(word) - 1), range(1, len(word))])),)


GRAPHS = [graph() for _ in range(24)]
SIZES = np.array([[float(len(one))] for one in GRAPHS])


def overlaps_of_level(graphs: list[Graph], level: int, *, edges: bool) -> np.ndarray:
    """The definition, from the counts of the exact Weisfeiler-Lehman kernel."""
    plain = [Graph(g.nodes, g.edge_index, g.edges if edges else None) for g in graphs]
    kernel = WeisfeilerLehmanKernel(depth=level, edges=edges)
    counts = dense(kernel.counts(plain))
    if level:
        before = WeisfeilerLehmanKernel(depth=level - 1, edges=edges).counts(plain)
        counts = counts[:, dense(before).shape[1] :]
    pairs = counts[:, None], counts[None]
    return np.minimum(*pairs).sum(-1) / np.maximum(*pairs).sum(-1)


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_it_is_the_mean_overlap_of_the_colors_of_every_level(depth, edges):
    levels = [overlaps_of_level(GRAPHS, level, edges=edges) for level in range(depth + 1)]
    kernel = SubtreeKernel((depth,), edges=edges).fit(GRAPHS)
    np.testing.assert_allclose(kernel(GRAPHS), np.mean(levels, axis=0), rtol=1e-12)
    np.testing.assert_allclose(kernel(GRAPHS[:4], GRAPHS[4:]), kernel(GRAPHS)[:4, 4:], rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(GRAPHS), 1)


def edges_of(one: Graph) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"{one.nodes[u]}>{one.nodes[v]}", (u, v)) for u, v in one.edge_index.T.tolist()]


def numbers_of(one: Graph) -> np.ndarray:
    return np.array([len(one), one.edge_index.shape[1], np.nan if len(one) > 6 else len(one) ** 2])


EVERYTHING = {"joint": True, "patterns": (edges_of,), "numbers": numbers_of, "names": "abc"}


def test_the_joint_overlap_is_that_of_the_colors_of_all_levels_together():
    kernel, first, second = SubtreeKernel((1,), edges=False, joint=True).fit(GRAPHS), *GRAPHS[:2]
    plain = [Graph(g.nodes, g.edge_index, None) for g in (first, second)]
    counts = dense(WeisfeilerLehmanKernel(depth=1, edges=False).counts(plain))
    joint = np.minimum(*counts).sum() / np.maximum(*counts).sum()
    levels = [overlaps_of_level(plain, level, edges=False)[0, 1] for level in (0, 1)]
    assert kernel([first], [second])[0, 0] == pytest.approx(np.mean([*levels, joint]), rel=1e-12)


def test_an_assignment_is_the_best_one_of_nodes_to_nodes():
    """Nodes are as similar as the levels at which their colors are equal (Kriege et al., 2016)."""
    kernel = SubtreeKernel((2,), overlap="assignment").fit(GRAPHS)
    colors = [np.stack([*kernel._levels(one, 0, 2)]) for one in GRAPHS]
    for i in range(6):
        for j in range(6, 12):
            alike = (colors[i][:, :, None] == colors[j][:, None]).sum(0)
            best = alike[linear_sum_assignment(-alike)].sum()
            expected = best / 3 / np.sqrt(len(GRAPHS[i]) * len(GRAPHS[j]))
            assert kernel([GRAPHS[i]], [GRAPHS[j]])[0, 0] == pytest.approx(expected)
    gram = kernel(GRAPHS)
    np.testing.assert_allclose(np.diag(gram), kernel.diag(GRAPHS))
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    for joint in (False, True):
        kernel = SubtreeKernel((2,), joint=joint, overlap="assignment").fit(GRAPHS, SIZES)
        weights = RNG.normal(size=len(GRAPHS))
        for one in GRAPHS[:8]:
            parts = sum(part.value for part in kernel.parts(one, weights))
            assert parts == pytest.approx((kernel.transform([one]) @ weights)[0])
    with pytest.raises(ArgumentError, match="overlap is 'cosine'; expected one of min-max, assig"):
        SubtreeKernel(overlap="cosine")


def test_patterns_and_numbers_are_kernels_of_the_sum():
    kernel = SubtreeKernel((0,), **EVERYTHING).fit(GRAPHS[:12])
    assert len(kernel.weights_) == 4  # labels, edges, labels together, numbers
    kernel.weights_ = np.array([0.0, 1.0, 0.0, 0.0])
    names = [[name for name, _ in edges_of(one)] for one in GRAPHS[:2]]
    both = [np.array([own.count(name) for name in sorted({*names[0], *names[1]})]) for own in names]
    expected = np.minimum(*both).sum() / max(np.maximum(*both).sum(), 1)
    assert kernel(GRAPHS[:1], GRAPHS[1:2])[0, 0] == pytest.approx(expected, rel=1e-6)
    kernel.weights_ = np.array([0.0, 0.0, 0.0, 1.0])
    z = kernel.space_.encode(np.array([numbers_of(one) for one in GRAPHS[:2]]))
    width = kernel.space_.width
    expected = np.exp(-((z[0] - z[1]) ** 2).sum() / width)
    assert kernel(GRAPHS[:1], GRAPHS[1:2])[0, 0] == pytest.approx(expected, rel=1e-12)


def test_patterns_and_numbers_have_parts_that_sum_and_are_restored():
    kernel = SubtreeKernel((1,), **EVERYTHING).fit(GRAPHS[:12], SIZES[:12])
    kernel.weights_ = np.linspace(1, 2, len(kernel.weights_))
    coefficients = RNG.normal(size=kernel.width)
    for one in GRAPHS:
        parts = kernel.parts(one, coefficients)
        total = sum(part.value for part in parts)
        assert total == pytest.approx(kernel.transform([one])[0] @ coefficients, abs=1e-10)
    lonely = next(one for one in GRAPHS if not edges_of(one))
    assert "no edges_of" in {part.what for part in kernel.parts(lonely, coefficients)}
    names = {part.what: part.where for part in kernel.parts(GRAPHS[0], coefficients)}
    assert names["a"] == tuple(range(len(GRAPHS[0])))  # a number is one of the whole graph
    other = SubtreeKernel((1,), **EVERYTHING).restore(*kernel.fitted())
    assert np.array_equal(other.transform(GRAPHS), kernel.transform(GRAPHS))
    tokens, arrays = kernel.fitted()
    arrays["numbers"] = arrays["numbers"][:, :2]
    with pytest.raises(ValueError, match="not those of 3 names"):
        SubtreeKernel((1,), **EVERYTHING).restore(tokens, arrays)


def test_a_graph_with_colors_of_its_own_is_as_similar_as_if_they_were_known():
    every, some = SubtreeKernel().fit(GRAPHS), SubtreeKernel().fit(GRAPHS[:9])
    np.testing.assert_allclose(some(GRAPHS[9:], GRAPHS[:9]), every(GRAPHS[9:], GRAPHS[:9]))


def test_features_are_exact_coordinates_if_every_graph_is_a_landmark():
    kernel = SubtreeKernel((2,)).fit(GRAPHS, SIZES)
    coordinates = kernel.transform(GRAPHS) @ kernel.whitening()
    # the whitening adds 1e-8 to the diagonal
    np.testing.assert_allclose(coordinates @ coordinates.T, kernel(GRAPHS), atol=1e-6)
    few = SubtreeKernel((2,), most=5).fit(GRAPHS)
    assert few.transform(GRAPHS).shape == (24, 5)
    near = few.transform(GRAPHS) @ few.whitening()
    assert ((near**2).sum(1) < 1 + 1e-6).all()


def test_the_level_that_explains_the_targets_gets_the_weight():
    labels = np.array([[float(list(one.nodes).count("a"))] for one in GRAPHS])
    kernel = SubtreeKernel((3,)).fit(GRAPHS, labels)
    assert kernel.weights_[0] > 10 * kernel.weights_[1:].max()
    noise = np.random.default_rng(0).normal(size=(24, 1))
    assert SubtreeKernel((3,)).fit(GRAPHS, noise).noise_ > 5 * kernel.noise_


def test_parts_of_colors_sum_to_the_linear_function_and_are_named():
    kernel = SubtreeKernel((2, 1), both_ways).fit(GRAPHS[:12], SIZES[:12])
    coefficients = RNG.normal(size=kernel.width)
    for one in GRAPHS:
        parts = kernel.parts(one, coefficients)
        total = sum(part.value for part in parts)
        assert total == pytest.approx(kernel.transform([one])[0] @ coefficients, abs=1e-12)
    path = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 1]])
    branched = Graph(list("CCON"), path, ["", "", "=", "=", ""])
    kernel = SubtreeKernel((2,), edges=True).fit([branched])
    names = {part.what: part.where for part in kernel.parts(branched, np.ones(1))}
    assert names["C"] == (0, 1)
    assert names["C(=O,C,N)"] == (1,)
    assert names["O(=C(=O,C,N))"] == (2,)
    star = Graph(list("CHHHHH"), torch.stack([torch.arange(1, 6), torch.zeros(5).long()]))
    parts = SubtreeKernel((1,)).fit([star]).parts(star, np.ones(1))
    assert [part.what for part in parts if part.where == (0,)] == ["C", "C(5×H)"]


def test_what_was_fitted_is_restored():
    kernel = SubtreeKernel((2,), edges=True).fit(GRAPHS[:6], SIZES[:6])
    other = SubtreeKernel((2,), edges=True).restore(*kernel.fitted())
    assert np.array_equal(other.transform(GRAPHS), kernel.transform(GRAPHS))


@pytest.mark.parametrize(("name", "change", "message"), [
    ("1", lambda own: [*own, own[0]], "colors of block 1 are repeated"),
    ("weights", lambda own: own[:2], "the weights are not 4 numbers"),
    ("1.counts", lambda own: 0 * own, "the counts of colors are damaged"),
    ("1.counts", lambda own: 9 * own, "exceed the number of nodes"),
    ("1.colors", lambda own: own + 99, "a color is out of the range"),
    ("1.ends", lambda own: own[::-1].copy(), "the counts of colors are damaged"),
])  # fmt: skip
def test_values_that_do_not_fit_are_refused(name, change, message):
    tokens, arrays = SubtreeKernel((2,)).fit(GRAPHS[:6]).fitted()
    own = tokens if name in tokens else arrays
    own[name] = change(own[name])
    with pytest.raises(ValueError, match=message):
        SubtreeKernel((2,)).restore(tokens, arrays)


def test_numbers_of_nodes_are_labels():
    from torch_geometric.data import Data

    ends = torch.tensor([[0, 1], [1, 0]])
    ones = [Data(x=torch.tensor([[0.1, 2.0], [x, 3.0]]), edge_index=ends) for x in (0.1, 0.2)]
    gram = SubtreeKernel((0,), edges=False).fit(ones)(ones)
    np.testing.assert_allclose(gram, [[1, 1 / 3], [1 / 3, 1]])


@pytest.mark.parametrize("empty", [nx.Graph(), Data(x=torch.zeros(0, 1), edge_index=NO_EDGES)])
def test_graphs_without_nodes_are_alike_and_unlike_others(empty):
    one = Data(x=torch.ones(2, 1), edge_index=NO_EDGES)
    kernel = SubtreeKernel().fit([one, empty])
    restored = SubtreeKernel().restore(*kernel.fitted())
    np.testing.assert_array_equal(restored([one, empty]), np.eye(2))
    # they share nothing, and overlap wholly with each other: a part without a place
    assert kernel.parts(empty, np.ones(2)) == [("no nodes", (), pytest.approx(1.0))]


def test_the_colors_of_nodes_of_many_neighbors_fit_into_a_file():
    stars = [nx.star_graph(count) for count in (35_000, 35_001)]
    kernel = SubtreeKernel((1,)).fit(stars)
    assert len(kernel.colors_[1]) == 3  # of two centers and of leaves
    assert max(map(len, kernel.colors_[1])) <= 2**16


def test_labels_of_numpy_are_those_of_python():
    graphs = [nx.path_graph(3), nx.path_graph(3)]
    for graph, kind in zip(graphs, (str, np.str_), strict=True):
        nx.set_node_attributes(graph, kind("C"), "x")
        nx.set_edge_attributes(graph, kind("-"), "edge_attr")
    np.testing.assert_allclose(SubtreeKernel().fit(graphs[:1])(graphs), 1)


def test_arguments_out_of_their_range_are_refused():
    with pytest.raises(ArgumentError, match=r"depths is \(-1,\); expected integers of at least 0"):
        SubtreeKernel((-1,))
    with pytest.raises(ArgumentError, match=r"depths is 3; .*For one of them, use \(3,\)"):
        SubtreeKernel(3)
    with pytest.raises(ArgumentError, match="most is 0; expected a positive integer"):
        SubtreeKernel(most=0)


def test_objects_of_other_views_are_written_to_a_file_as_they_are(tmp_path):
    letters = ["ab", "ba", "aab", "b"]
    kernel = SubtreeKernel((1,), path_of_letters).fit(letters)
    written = gram(kernel, letters, out=tmp_path / "gram.npy", block=2)
    np.testing.assert_array_equal(written, kernel(letters))
    graphs = [view for one in letters for view in path_of_letters(one)]
    plain = SubtreeKernel((1,)).fit(graphs)
    written = gram(plain, graphs, out=tmp_path / "plain.npy", block=2)
    np.testing.assert_array_equal(written, kernel(letters))
