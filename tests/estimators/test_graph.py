"""`GraphClassifier` and `GraphRegressor`: inputs, fitting, explaining, saving."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fitted_examples import GRAPH as SMALL
from fitted_examples import GRAPHS, fitted, labeled
from fitted_examples import LETTERS as LABELS
from fitted_examples import NODES as NUMBERS
from sklearn.base import clone

from both_halves import assert_sums, with_both

pytest.importorskip("torch_geometric")
pytest.importorskip("networkx")

import networkx as nx
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from representer.errors import ArgumentError, DataError, KindError, TrainingError
from representer.estimators import GraphClassifier, GraphRegressor
from representer.estimators.fitting import outputs_of
from representer.estimators.graph_inputs import (
    FeatureCode,
    GraphInputs,
    PlainGraph,
    degrees,
    read_graphs,
)
from representer.nn import path_graph

NETWORK = {**SMALL, "answer": "network"}


@pytest.mark.parametrize("network", ["wl", "random-walk"])
@pytest.mark.parametrize("decay", [0.5, "learned"])
def test_contributions_of_walks_and_baseline_sum_to_the_score(network, decay):
    parameters = {**NETWORK, "epochs": 2, "network": network, "decay": decay, "order": 3}
    model = GraphClassifier(**parameters, members=2, dropout=0.2).fit(GRAPHS, LABELS)
    (explanation,) = model.explain(GRAPHS[5:6])
    assert_sums(explanation, abs=1e-9)
    assert explanation.prediction == model.predict(GRAPHS[5:6])[0]
    walks = {c.where for c in explanation.contributions}
    assert (0, 1, 2) in walks
    assert (2, 1, 2) in walks
    assert all(len(walk) == 3 for walk in walks)


def test_contributions_of_both_halves_name_subtrees_and_walks():
    model = with_both(fitted("GraphClassifier"))
    assert 0 < model.share_["kernel"] < 1
    (one,) = model.explain(GRAPHS[3:4])
    names = {(c.part, c.where): c.what for c in one.contributions}
    assert len({(c.part, c.what, c.where) for c in one.contributions}) == len(one.contributions)
    assert {part for part, _ in names} == {"network", "kernel"}
    assert names["network", (1, 2)] == "a 1–c 2"
    assert names["kernel", (0,)].startswith("a(x a(")
    assert ("kernel", (0, 1, 3)) in names  # all nodes with the label a


def friends(count: int, circles: int) -> nx.Graph:
    """An ego network: node 0 knows everybody, and the members of a circle know each other."""
    graph = nx.star_graph(count)
    for circle in range(circles):
        graph.update(nx.complete_graph(range(1 + circle, count + 1, circles)))
    return graph


DENSE = {
    "cliques": [nx.complete_graph(n) for n in range(5, 45, 2)],
    "stars": [nx.star_graph(n) for n in range(5, 500, 25)],
    "ego networks": [friends(n, 1 + n % 3) for n in range(20, 60, 2)],
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "network"), [
    ("cliques", "wl"), ("stars", "wl"), ("stars", "random-walk"),
    ("ego networks", "random-walk"), ("cliques", "gine"),
])  # fmt: skip
def test_the_loss_is_bounded_for_any_degree(name, network):
    graphs = DENSE[name]
    options = {**NETWORK, "network": network, "depth": 4, "epochs": 3}
    sizes = np.array([float(len(graph)) for graph in graphs])
    for model, y in (
        (GraphClassifier(**options), np.where(sizes > sizes.mean(), "large", "small")),
        (GraphRegressor(**options), sizes),
    ):
        model.fit(graphs, y)
        assert max(epoch["train_loss"] for epoch in model.history_) < 10


def test_sums_that_overflow_end_the_training_with_their_reason_and_leave_the_kernel(capsys):
    graphs = [nx.complete_graph(n) for n in [24, 30] * 6]
    options = {**NETWORK, "depth": 14, "order": 4, "epochs": 1, "normalize": False}
    with pytest.raises(TrainingError, match="smaller with a lower order or depth"):
        GraphClassifier(**options).fit(graphs, [len(graph) for graph in graphs])
    both = GraphClassifier(**options | {"answer": "both"}).fit(graphs, [len(g) for g in graphs])
    assert np.isfinite(both.predict_proba(graphs)).all()
    assert "lower order or depth" in capsys.readouterr().err


@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_units_of_a_trained_network_evaluate_the_kernel_of_a_dense_graph(decay):
    graphs = DENSE["cliques"]
    model = GraphRegressor(**NETWORK, network="random-walk", decay=decay, order=3, epochs=1)
    model.fit(graphs, range(len(graphs)))
    layer = model.network_.members[0].double().network
    (graph,) = model.inputs_.encode(read_graphs(graphs[-1:]))
    graph.x = graph.x.double()
    values = layer.kernel([graph], [path_graph(walk) for walk in layer.references()])
    torch.testing.assert_close(layer(graph.x, graph.edge_index), values, rtol=1e-10, atol=0)


def test_the_kernel_alone_learns_what_the_labels_tell():
    model = GraphClassifier(**SMALL, answer="kernel").fit(GRAPHS, LABELS)
    assert model.score(GRAPHS, LABELS) == 1
    numbers = GraphRegressor(**SMALL, answer="kernel").fit(GRAPHS, NUMBERS)
    assert numbers.score(GRAPHS, NUMBERS) > 0.95
    assert numbers.machine_ is not None
    near, far = (
        numbers.machine_.moments(read_graphs([one]))[1].item()
        for one in (GRAPHS[4], labeled(40, "b"))
    )
    assert far > 2 * near > 0
    assert (numbers.predict(GRAPHS[:3], return_std=True)[1] > 0).all()


def test_logits_of_members_are_averaged():
    model = GraphClassifier(**NETWORK, epochs=1, members=3).fit(GRAPHS, LABELS)
    graphs = model.inputs_.encode(read_graphs(GRAPHS))
    members = [outputs_of(one, model.inputs_, graphs) for one in model.network_.members]
    mean = np.mean(members, axis=0)
    expected = np.exp(mean) / np.exp(mean).sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(GRAPHS), expected, rtol=1e-5)


def test_labels_that_training_lacked_are_counted():
    model = GraphClassifier(**SMALL, answer="kernel").fit(GRAPHS, LABELS)
    with pytest.warns(UserWarning, match="2 of 9 nodes have labels that training lacked: 'y', 'z'"):
        model.predict([labeled(4, "z"), labeled(5, "y")][::-1])
    cycle = [nx.cycle_graph(n) for n in range(4, 12)] + [nx.path_graph(n) for n in range(4, 12)]
    model.fit(cycle, ["ring"] * 8 + ["chain"] * 8)
    with pytest.warns(UserWarning, match="1 of 5 nodes have degrees that training lacked: 4"):
        model.predict([nx.star_graph(4)])


def test_numbers_of_nodes_are_labels_of_the_kernel_if_they_are_integers():
    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])

    def graph(first: float, second: float) -> Data:
        x = torch.tensor([[first, second], [0.0, 0.5], [1.0, 0.5]])
        return Data(x=x, edge_index=ends, edge_attr=torch.tensor([[0.5], [0.5], [1.5], [1.5]]))

    inputs = GraphInputs.find(read_graphs([graph(0, 0.1), graph(1, 0.2)]))
    (labeled_graph,) = inputs.labeled(read_graphs([graph(1, 7.0)])[0])
    assert labeled_graph.nodes == [(1,), (0,), (1,)]
    assert labeled_graph.edges is None
    half = GraphInputs.find(read_graphs([graph(0.5, 0.1)]))
    (by_degree,) = half.labeled(read_graphs([graph(0.5, 0.1)])[0])
    assert by_degree.nodes == [1, 2, 1]


def measured(count: int, label: int, number: float) -> Data:
    """Return a ring whose nodes have an integer, its label, and a number."""
    ends = torch.arange(count)
    around = torch.stack([torch.cat([ends, ends.roll(1)]), torch.cat([ends.roll(1), ends])])
    x = torch.stack([(ends % (2 + label) == 0).double(), torch.full((count,), number).double()], 1)
    return Data(x=x + torch.randn(count, 1).double() * torch.tensor([0.0, 0.2]), edge_index=around)


def test_the_kernel_compares_labels_and_numbers_of_the_nodes_together(tmp_path):
    torch.manual_seed(0)
    kinds = [(k % 2, k // 2 % 2) for k in range(60)]
    graphs = [measured(6 + k % 5, a, b - 0.25) for k, (a, b) in enumerate(kinds)]
    for classes in ([a for a, _ in kinds], [b for _, b in kinds], [2 * a + b for a, b in kinds]):
        model = GraphClassifier(answer="kernel", random_state=0, verbose=0)
        model.fit(graphs[:40], classes[:40])
        assert model.score(graphs[40:], classes[40:]) >= 0.9
    explanation = model.explain(graphs[:1])[0]
    assert "mean of number 2 of the nodes" in {part.what for part in explanation.contributions}
    assert_sums(explanation, abs=1e-6)
    model.save(tmp_path / "run")
    again = GraphClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


def test_a_graph_without_edges_has_unknown_numbers_of_edges():
    ends = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.ones(2, 1).long(), edge_index=ends, edge_attr=torch.full((2, 1), own))
              for own in (0.5, 1.5)]  # fmt: skip
    graphs.append(Data(x=torch.ones(2, 1).long(), edge_index=ends[:, :0]))
    graphs[-1].edge_attr = torch.zeros(0, 1)
    read = read_graphs(graphs)
    inputs = GraphInputs.find(read)
    assert inputs.summary_names() == ("mean of number 1 of the edges",
                                      "spread of number 1 of the edges")  # fmt: skip
    assert inputs.summary(read[0]).tolist() == [0.5, 0.0]
    assert np.isnan(inputs.summary(read[-1])).all()


def test_a_network_without_contributions_says_so():
    model = GraphClassifier(**NETWORK, epochs=1, network="gine").fit(GRAPHS, LABELS)
    with pytest.raises(KindError, match="not a sum of contributions"):
        model.explain(GRAPHS[:1])


def test_pyg_and_networkx_graphs_become_the_same_input():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = Data(x=torch.tensor([7, 8, 7]), edge_index=edges, edge_attr=torch.tensor([0, 0, 1, 1]))
    graph = nx.Graph()
    graph.add_nodes_from(
        [(node, {"label": label}) for node, label in zip("uvw", (7, 8, 7), strict=True)]
    )
    graph.add_edges_from([("u", "v", {"label": 0}), ("v", "w", {"label": 1})])
    read = read_graphs([data, graph])
    inputs = GraphInputs.find(read)
    first, second = inputs.encode(read)
    order = [0, 1, 2, 3]
    assert torch.equal(first.x, second.x)
    assert first.x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert torch.equal(first.edge_index[:, order], second.edge_index[:, order])
    assert torch.equal(first.edge_attr, second.edge_attr)
    unknown = read_graphs([Data(x=torch.tensor([9]), edge_index=edges[:, :0])])
    (encoded,) = inputs.encode(unknown)
    assert encoded.x.tolist() == [[0, 0, 1]]
    assert encoded.edge_attr.shape == (0, 3)


def test_numbers_are_standardized_except_for_constant_and_binary_columns():
    numbers = np.array([[1.0, 0, 5, 0], [3.0, 1, 5, 0], [5.0, 0, 5, 0]])
    code = FeatureCode.find([numbers[:2], numbers[2:]])
    s = 1.5**0.5
    wanted = [[-s, 0, 1, 0, 1], [0, 1, 1, 0, 1], [s, 0, 1, 0, 1]]
    np.testing.assert_allclose(code.encode(numbers), wanted, rtol=1e-6)
    assert code.width == 5


def test_nodes_without_features_are_labeled_by_degree():
    star, path = nx.star_graph(40), nx.path_graph(3)
    read = read_graphs([star, path])
    assert degrees(read[0]) == (64, *[1] * 40)
    inputs = GraphInputs.find(read)
    assert inputs.nodes.labels == (1, 2, 64)
    assert inputs.edges is None
    model = GraphRegressor(**SMALL, epochs=1).fit([star, path] * 5, range(10))
    assert model.predict([path]).shape == (1,)


def test_a_directed_graph_keeps_its_directions_and_a_loop_is_one_edge():
    one, two = read_graphs([nx.DiGraph([(0, 1)]), nx.Graph([(0, 0), (0, 1)])])
    assert one.edge_index.tolist() == [[0], [1]]
    assert two.edge_index.tolist() == [[0, 0, 1], [0, 1, 0]]


def test_several_targets_may_be_partly_unknown():
    values = np.stack([NUMBERS, -NUMBERS], axis=1)
    values[::3, 0] = np.nan
    values[1, :] = np.nan
    model = GraphRegressor(**SMALL, epochs=2).fit(GRAPHS, values)
    mean, std = model.predict(GRAPHS, return_std=True)
    assert mean.shape == std.shape == (20, 2)
    assert np.isfinite(std).all()
    assert np.isfinite(model.score(GRAPHS, values))


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(("graph", "message"), [
    (nx.Graph(), r"X\[3\] has no nodes"),
    ("CCO", r"X\[3\] is of type str; expected a PyG Data or a networkx graph"),
    (Data(x=torch.ones(1, 2), edge_index=EDGES), r"X\[3\] has an edge of node 1 in edge_index"),
    (Data(x=torch.ones(2, 2), edge_index=-EDGES), r"X\[3\] has an edge of node -1"),
    (Data(x=torch.ones(2, 2), edge_index=EDGES[0]), r"X\[3\] has an edge_index of \(2,\)"),
    (Data(x=torch.ones(2, 3), edge_index=EDGES), r"X\[3\] has 3 numbers per node; X\[0\] has 2"),
    (Data(x=torch.tensor([1, 2]), edge_index=EDGES), r"X\[3\] has labels per node"),
    (Data(edge_index=EDGES, num_nodes=2), r"X\[3\] has no node features; X\[0\] has 2 numbers"),
    (
        Data(x=torch.tensor([[1.0, 2], [3, float("nan")]]), edge_index=EDGES),
        r"X\[3\] has the feature nan at node 1",
    ),
    (
        Data(x=torch.ones(2, 2), edge_index=EDGES, edge_attr=torch.ones(3, 1)),
        r"X\[3\] has 3 rows of features for 2 edges",
    ),
    (
        Data(x=torch.ones(2, 2), edge_index=EDGES, edge_attr=torch.ones(2, 1)),
        r"X\[3\] has 1 number per edge; X\[0\] has none",
    ),
])  # fmt: skip
def test_errors_name_the_row(graph, message):
    fine = [Data(x=torch.randn(2, 2), edge_index=EDGES) for _ in range(9)]
    model = GraphRegressor(**SMALL, epochs=1, valid_fraction=0.1)
    given = [*fine[:3], graph, *fine[4:]]
    with pytest.raises(DataError, match=message):
        model.fit(given, range(9), validation=(fine, range(9)))
    if isinstance(graph, Data):
        model.fit(fine, range(9))
        with pytest.raises(
            DataError, match=message.replace(r"X\[0\] has", "the training graphs have")
        ):
            model.predict(given)


def test_a_dataset_or_a_batch_of_pyg_is_the_list_of_its_graphs():
    graphs = [Data(edge_index=torch.ones(2, 2).long(), num_nodes=n) for n in range(2, 12)]
    labels = torch.tensor([0, 1] * 5)
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = InMemoryDataset.collate(graphs)
    model = GraphClassifier(**SMALL, answer="kernel")
    expected = model.fit(graphs, labels).predict_proba(graphs)
    with pytest.raises(DataError, match=r"X\[0\] is a batch of 2 graphs; .* loader.dataset"):
        model.predict(DataLoader(dataset, batch_size=2))
    for given in (dataset, dataset[:], Batch.from_data_list(graphs)):
        found = clone(model).fit(given, labels).predict_proba(given)
        np.testing.assert_array_equal(found, expected)


def test_a_graph_in_which_one_node_lacks_its_label_is_named():
    graph = labeled(4, "b")
    del graph.nodes[2]["label"]
    with pytest.raises(DataError, match=r"X\[1\] has 1 nodes without 'label'"):
        GraphClassifier(**SMALL).fit([GRAPHS[0], graph], LABELS[:2])
    with pytest.raises(DataError, match="X is one graph"):
        GraphClassifier(**SMALL).fit(graph, LABELS)


def test_a_label_that_json_cannot_hold_is_named(tmp_path):
    graphs = [nx.relabel_nodes(graph, str) for graph in GRAPHS]
    for graph in graphs:
        for node in graph:
            graph.nodes[node]["label"] = (graph.nodes[node]["label"],)
    model = GraphClassifier(**SMALL, epochs=1).fit(graphs, LABELS)
    with pytest.raises(DataError, match=r"the label \('a',\) cannot be saved"):
        model.save(tmp_path / "run")


@pytest.mark.parametrize("decay", ["gated", "state", 0.5])
def test_a_network_of_trees_is_explained_by_their_chains(decay):
    rng = np.random.default_rng(0)
    graphs, labels = [], []
    for row in range(24):
        count = int(rng.integers(2, 7))
        ends = np.array([(v, rng.integers(v)) for v in range(1, count)]).T
        words = tuple(rng.choice(list("abc"), size=count).tolist())
        graphs.append(PlainGraph(row, count, ends, words, None))
        labels.append("yes" if "b" in words else "no")
    options = {**NETWORK, "network": "tree", "decay": decay, "order": 2, "epochs": 2}
    model = GraphClassifier(**options).fit(graphs, labels)
    (explained,) = model.explain(graphs[3:4])
    assert_sums(explained, rel=1e-6, abs=1e-9)


def test_a_network_of_trees_refuses_other_graphs_by_their_row():
    model = GraphClassifier(**NETWORK, network="tree", epochs=1)
    with pytest.raises(ArgumentError, match=r"X\[0\].edge_index"):
        model.fit(GRAPHS, LABELS)
    with pytest.raises(ArgumentError, match="decay is 'state'"):
        GraphClassifier(**NETWORK, decay="state").fit(GRAPHS, LABELS)


def test_graphs_of_many_labels_become_columns_in_a_batch_only(monkeypatch):
    read = read_graphs(GRAPHS)
    inputs = GraphInputs.find(read)
    expected = inputs.collate(inputs.encode(read))
    monkeypatch.setattr("representer.estimators.graph_inputs.MOST_COLUMNS", 1)
    encoded = inputs.encode(read)
    assert encoded[0].x.dim() == 1
    assert inputs.size(encoded[0]) == len(GRAPHS[0])
    for found, wanted in zip(inputs.collate(encoded)[:4], expected[:4], strict=True):
        assert torch.equal(found, wanted)
