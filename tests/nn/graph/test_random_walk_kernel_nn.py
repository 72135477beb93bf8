"""The layer of the random-walk kernel: calls, options and errors."""

from __future__ import annotations

import pytest
import torch

from drawn_graphs import F64, WALK_OPTIONS, edge_features, graph
from ops.samples.walk_aggregate import PARTS, SIZES, tensors
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import walk_states
from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, path_graph
from representer.nn.graph.walks import NeighborSum

NAMES = ["-".join(str(value) for value in options.values()) for options in WALK_OPTIONS]
every_option = pytest.mark.parametrize("options", WALK_OPTIONS, ids=NAMES)


def layer(dtype: torch.dtype = F64, **options) -> RandomWalkKernelNN:
    torch.manual_seed(1)
    net = RandomWalkKernelNN(3, 4, order=3, dtype=dtype, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    return net


@every_option
def test_the_states_match_the_recurrence(options):
    G, net = graph(), layer(**options)
    w = net.walks
    products = torch.einsum("vd,jhd->vjh", G.x, w.nodes)
    of_edges = gates = None
    if options["edge_dim"]:
        of_edges = torch.einsum("ek,jhk->ejh", G.edge_attr, w.edges)
    decay = net.decay_gate()
    if options["decay"] == "gated":
        u, v = G.edge_index
        z = G.x[u] @ w.gates[0].T + G.x[v] @ w.gates[1].T + w.gate_bias
        if options["edge_dim"]:
            z = z + G.edge_attr @ w.gate_edge.T
        decay, gates = 1.0, torch.sigmoid(z)
    expected = walk_states(
        products, G.edge_index, decay=decay, combine=options["combine"],
        activation="tanh" if options["nonlinear"] else "identity",
        edge_products=of_edges, gates=gates,
    )  # fmt: skip
    found = net.node_states(G.x, G.edge_index, edge_features(net, G))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    pooled = net(G.x, G.edge_index, edge_features(net, G))
    torch.testing.assert_close(pooled[0], expected[:, -1].sum(0))


def test_a_reference_is_a_directed_path():
    reference = torch.randn(3, 2)
    path = path_graph(reference, torch.ones(2, 1))
    assert path.edge_index.tolist() == [[0, 1], [1, 2]]
    assert torch.equal(path.x, reference)
    assert path.edge_attr.shape == (2, 1)
    assert path_graph(reference[:1]).edge_index.shape == (2, 0)
    with pytest.raises(ShapeError, match=r"reference has shape \(2,\)"):
        path_graph(reference[0])
    with pytest.raises(ShapeError, match=r"edges has shape \(3, 1\); expected \(2, features\)"):
        path_graph(reference, torch.ones(3, 1))


def test_an_activation_is_applied_to_the_sum():
    G = graph()
    plain, activated = layer(), layer(activation="relu")
    expected = plain(G.x, G.edge_index).relu()
    torch.testing.assert_close(activated(G.x, G.edge_index), expected)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"x": torch.zeros(5, 4, dtype=F64)}, ShapeError, r"x has shape \(5, 4\); .* \(nodes, 3\)"),
    ({"x": torch.zeros(5, 3)}, KindError, "x is torch.float32; expected torch.float64"),
    ({"x": None}, KindError, r"x is NoneType; expected a tensor \(nodes, 3\)"),
    ({"edge_index": torch.eye(5).to_sparse()}, KindError, r"a sparse adjacency; .* edge_dim"),
    ({"edge_index": [[0], [1]]}, KindError, "edge_index is list; expected a tensor"),
    ({"edge_index": torch.full((2, 9), 5)}, ArgumentError, r"edge_index\[0, 0\] is 5"),
    ({"edge_attr": None}, KindError, "edge_attr is None; .* as the layer has edge_dim=2"),
    ({"edge_attr": torch.zeros(9, 3, dtype=F64)}, ShapeError, r"expected \(9, 2\)"),
    ({"batch": torch.zeros(4).long()}, ShapeError, r"batch has shape \(4,\); expected \(5,\)"),
])  # fmt: skip
def test_invalid_calls_are_rejected(changes, error, message):
    G = graph()
    arguments = {"x": G.x, "edge_index": G.edge_index, "edge_attr": G.edge_attr, **changes}
    with pytest.raises(error, match=message):
        layer(edge_dim=2)(**arguments)


# The deep layer: its options, layers, and why it may have no kernel.


def test_the_repr_shows_arguments_that_differ_from_defaults():
    net = DeepGraphKernelNN(3, 4, num_layers=3, nonlinear="relu")
    assert net.extra_repr() == "3, 4, nonlinear='relu', num_layers=3"
    assert DeepGraphKernelNN(3, 4).extra_repr() == "3, 4"


def test_references_are_walks_only_in_the_first_layer():
    net = DeepGraphKernelNN(3, 4, order=2)
    assert net.references().shape == (4, 2, 3)
    assert net.references(1).shape == (4, 2, 4)
    with pytest.raises(KindError, match="Its σ is not a Mercer kernel: tanh"):
        net.kernel  # noqa: B018


def test_labels_are_what_a_layer_reads_and_part_is_its_walks():
    net = DeepGraphKernelNN(3, 4, num_layers=3)
    x, ends = torch.randn(5, 3), torch.randint(0, 5, (2, 9))
    assert torch.equal(net.labels(x, ends, layer=0), x)
    for layer in (1, -1):
        states = net.node_states(x, ends, layer=layer)
        labels = net.labels(x, ends, layer=layer)
        torch.testing.assert_close(net.part(layer).node_states(labels, ends), states)


def test_initial_parameters_keep_the_scale_of_the_states():
    net, x = DeepGraphKernelNN(50, 40), torch.randn(30, 50)
    edges = torch.randint(0, 30, (2, 90))
    assert 0.1 < float(net(x, edges).detach().std()) < 30
    before = net.mixing[0].clone()
    net.reset_parameters()
    assert not torch.equal(net.mixing[0], before)


# The operator and message passing give the same sum over neighbors.


@pytest.mark.parametrize("parts", PARTS)
def test_message_passing_with_a_mask_of_ones_matches_the_operator(parts):
    sums, given = NeighborSum(), tensors(SIZES["5x9x3x17"], parts, torch.float64)
    options = {"scale": 3.0, "activation": "tanh" if "shift" in parts else "identity"}
    expected = sums(**given, **options)
    sums.explain, sums._edge_mask, sums._apply_sigmoid = True, torch.ones(9).double(), False
    torch.testing.assert_close(sums(**given, **options), expected, rtol=1e-10, atol=1e-12)
