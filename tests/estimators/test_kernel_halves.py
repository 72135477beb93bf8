"""Estimators of graphs whose two halves are of a kernel that the user writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import networkx as nx
import torch
from sklearn.model_selection import GridSearchCV

from both_halves import assert_sums
from drawn_trees import tree
from representer.errors import ArgumentError, DataError
from representer.estimators import GraphClassifier, GraphRegressor
from representer.estimators.kernel_halves import KernelHalves
from representer.kernels import (
    Gaussian,
    RandomWalkKernel,
    StringKernel,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.kernels.tree_kernels import tree_of
from representer.nn import Relabeling

KERNEL = RandomWalkKernel(2, 0.5) + 0.1 * RandomWalkKernel(3, 0.5)
SMALL: dict[str, Any] = {"hidden_size": 8, "random_state": 0, "verbose": 0, "epochs": 5}


def molecule(k: int) -> nx.Graph:
    """Return a chain of C with an N; in every second one it is beside an O."""
    graph = nx.path_graph(5 + k % 4)
    labels = ["C"] * len(graph)
    labels[1], labels[2 if k % 2 else -1] = "N", "O"
    nx.set_node_attributes(graph, dict(enumerate(labels)), "label")
    return graph


GRAPHS, LABELS = [molecule(k) for k in range(48)], ["apart", "beside"] * 24


@pytest.fixture(scope="module")
def classifier() -> GraphClassifier:
    return GraphClassifier(kernel=KERNEL, **SMALL | {"epochs": 40, "lr": 0.03}).fit(GRAPHS, LABELS)


def test_a_damaged_landmark_is_refused(classifier, tmp_path):
    from representer.estimators.kernel_halves import KernelFeatures

    tokens, arrays = classifier.machine_.kernel.fitted()
    arrays["x_lengths"] = arrays["x_lengths"] + 1
    with pytest.raises(ValueError, match="rows for lengths"):
        KernelFeatures(KERNEL).restore(tokens, arrays)
    arrays["x_lengths"] = arrays["x_lengths"] - 1
    arrays["whitening"] = arrays["whitening"][1:]
    with pytest.raises(ValueError, match="of whitening"):
        KernelFeatures(KERNEL).restore(tokens, arrays)


def test_edges_with_features_and_several_numbers():
    kernel = RandomWalkKernel(2, 0.5)
    X = [nx.Graph(graph) for graph in GRAPHS[:20]]
    for graph in X:
        nx.set_edge_attributes(graph, "single", "label")
    y = np.stack([np.arange(20.0) % 5, -np.arange(20.0)], axis=1)
    model = GraphRegressor(kernel=kernel, **SMALL).fit(X, y)
    assert model.predict(X).shape == (20, 2)
    (one,) = model.explain(X[:1])
    assert_sums(one, abs=1e-9)


def test_a_kernel_without_a_sum_over_nodes_is_a_contribution_of_the_graph():
    model = GraphClassifier(kernel=RandomWalkKernel(2, 0.5, base=Gaussian()), **SMALL)
    (one,) = model.fit(GRAPHS, LABELS).explain(GRAPHS[:1])
    assert {len(part.where) for part in one.contributions} == {len(GRAPHS[0])}


def test_a_kernel_with_a_module_is_used_but_not_saved(tmp_path):
    relabel = Relabeling(4, dtype=torch.float64)
    kernel = WeisfeilerLehmanKernel(RandomWalkKernel(2, 0.5), 1, relabel)
    model = GraphClassifier(kernel=kernel, **SMALL | {"answer": "kernel"}).fit(GRAPHS, LABELS)
    assert model.score(GRAPHS, LABELS) > 0.9
    with pytest.raises(ArgumentError, match="to be saved"):
        model.save(tmp_path / "run")


def test_grid_search_over_the_parameters_of_the_kernel():
    model = GraphClassifier(kernel=RandomWalkKernel(2), **SMALL | {"answer": "kernel"})
    search = GridSearchCV(model, {"kernel__order": [1, 2]}, cv=2).fit(GRAPHS, LABELS)
    assert search.best_params_ == {"kernel__order": 2}


def test_without_a_kernel_both_halves_are_as_before():
    assert issubclass(GraphClassifier, KernelHalves)
    assert type(GraphClassifier(**SMALL).fit(GRAPHS, LABELS).kernel_).__name__ == "SubtreeKernel"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(StringKernel(), "a kernel of graphs"), (RandomWalkKernel(base="delta"), "one-hot")],
)
def test_a_wrong_kernel_is_named(kernel, message):
    with pytest.raises(ArgumentError, match=message):
        GraphClassifier(kernel=kernel).fit(GRAPHS, LABELS)


def test_objects_of_another_kind_are_refused(classifier):
    with pytest.raises(DataError, match="node"):
        classifier.predict([nx.path_graph(3)])


# ---- trees


def sentence(k: int) -> str:
    """Return a tree in which "not" is beside "good" or, of the other class, beside "it"."""
    adverb, pronoun = ("not good", "it") if k % 2 else ("good", "not it")
    words = [" ".join(f"(W {w})" for w in part.split()) for part in (pronoun, adverb)]
    more = " (X so)" * (k % 4)
    return f"(S (A {words[0]}) (B {words[1]}){more})"


TREES, OF_TREES = [sentence(k) for k in range(24)], ["good", "bad"] * 12
TREE_KERNEL = TreeKernel(2, 0.5) + 0.3 * TreeKernel(1, 0.5, ordered=True).cosine()


@pytest.fixture(scope="module")
def of_trees() -> GraphClassifier:
    options = SMALL | {"epochs": 15, "lr": 0.05}
    return GraphClassifier(kernel=TREE_KERNEL, **options).fit(TREES, OF_TREES)


@pytest.fixture(params=["graphs", "trees"])
def halves(request: pytest.FixtureRequest) -> tuple[GraphClassifier, list[Any], list[str], str]:
    """A classifier, its objects, their labels, and a contribution of the kernel."""
    if request.param == "trees":
        return request.getfixturevalue("of_trees"), TREES, OF_TREES, "not in TreeKernel()"
    name = "N in RandomWalkKernel(decay=0.5)"
    return request.getfixturevalue("classifier"), GRAPHS, LABELS, name


@pytest.mark.parametrize("answer", ["kernel", "network", "both"])
def test_both_halves_learn_and_are_explained_by_their_nodes(halves, answer):
    model, X, y, named = halves
    half = model.part(answer)
    assert half.score(X, y) > 0.9
    (one,) = half.explain(X[1:2])
    assert_sums(one, abs=1e-9)
    log = np.log(half.predict_proba(X[1:2])[0])
    assert one.score == pytest.approx(log.max() - log.mean(), abs=1e-4)
    nodes = len(tree_of(X[1]).nodes) if isinstance(X[1], str) else len(X[1])
    assert {part.where for part in one.contributions} == {(v,) for v in range(nodes)}
    assert named in {part.what for part in one.contributions}


def test_it_is_saved_with_its_kernel(halves, tmp_path):
    model, X, *_ = halves
    model.save(tmp_path / "run")
    again = GraphClassifier.load(tmp_path / "run")
    assert repr(again.kernel) == repr(model.kernel)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-6)


def test_all_forms_of_a_tree_are_read_alike(of_trees):
    graph = tree_of(TREES[3])
    coded = of_trees.inputs_.nodes.labels
    assert set(graph.nodes) <= set(coded)
    networkx = nx.DiGraph()
    for v, label in enumerate(graph.nodes):
        networkx.add_node(v, label=label)
    networkx.add_edges_from(graph.edge_index.T.tolist())

    def nested(v: int) -> Any:
        children = [u for u, above in graph.edge_index.T.tolist() if above == v]
        return (graph.nodes[v], *map(nested, children))

    expected = of_trees.predict_proba([TREES[3]])
    for form in (networkx, nested(0)):
        np.testing.assert_allclose(of_trees.predict_proba([form]), expected, rtol=1e-6)


def test_the_exact_half_is_the_kernel_of_the_written_trees(of_trees):
    trees = [TREES[0], "(S (A good) unknown)", "(S (B good) (W other))"]
    kernel = TreeKernel(2, 0.5)
    exact = of_trees.exact(of_trees.checked_objects(trees))
    labels = torch.as_tensor(kernel(trees, TREES[:5]))
    vectors = kernel(exact, of_trees.exact(of_trees.checked_objects(TREES[:5])))
    torch.testing.assert_close(vectors, labels, rtol=0, atol=1e-12)


def test_a_regressor_of_trees_with_features_of_their_nodes():
    X = [tree(seed, 4 + seed % 5) for seed in range(20)]
    y = TreeKernel(1)(X, X[:1])[:, 0].numpy()
    model = GraphRegressor(kernel=TreeKernel(1), **SMALL | {"answer": "kernel"}).fit(X, y)
    assert model.score(X, y) > 0.99


def test_the_network_of_trees_takes_written_trees_too():
    model = GraphClassifier(network="tree", **SMALL | {"epochs": 1}).fit(TREES, OF_TREES)
    assert model.predict(TREES[:2]).shape == (2,)


@pytest.mark.parametrize(("X", "message"), [
    ("(S a)", "X is one graph"),
    (["(S a"], r"X\[0\]"),
    ([nx.cycle_graph(3, nx.DiGraph)], r"X\[0\].edge_index is .a cycle"),
    ([3], "or a tree in brackets"),
])  # fmt: skip
def test_invalid_trees_are_rejected(of_trees, X, message):
    with pytest.raises((DataError, ArgumentError), match=message):
        of_trees.predict(X)


def test_graphs_of_other_kernels_are_not_written_trees(classifier):
    with pytest.raises(DataError, match="type str"):
        classifier.predict(["CCO"])
