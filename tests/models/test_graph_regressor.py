"""The graph regressor: L17's sizes, its initialization, ensembles, and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch, Data

from representer.errors import ArgumentError
from representer.models import (
    GINE,
    GraphEnsemble,
    GraphRegressionNetwork,
    GraphRegressorConfig,
)

TINY = {"in_channels": 3, "hidden_size": 5, "depth": 2, "edge_dim": 2, "outputs": 2}


def graphs() -> list[Data]:
    g = torch.Generator().manual_seed(0)
    sizes = ((4, 6), (1, 0), (3, 4))
    return [
        Data(
            x=torch.rand(n, 3, generator=g),
            edge_index=torch.randint(0, n, (2, e), generator=g),
            edge_attr=torch.rand(e, 2, generator=g),
        )
        for n, e in sizes
    ]


def inputs_of(data) -> tuple:
    return data.x, data.edge_index, data.edge_attr


@pytest.mark.parametrize(("options", "count"), [
    ({"hidden_size": 175}, 263_376),
    ({"hidden_size": 200, "decay": 1.0}, 259_601),
])  # fmt: skip
def test_the_networks_of_the_paper_have_its_numbers_of_parameters(options, count):
    """reproduction: gated 175 units, without gates 200 units, with 82 and 6 features."""
    model = GraphRegressionNetwork(GraphRegressorConfig(82, **options))
    # the code has no bias on the gate's embedding, nor is the last relabeling used
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(count, rel=2e-3)


@pytest.mark.parametrize("network", ["wl", "random-walk", "gine"])
def test_a_batch_matches_its_graphs_one_by_one(network):
    model = GraphRegressionNetwork(GraphRegressorConfig(**TINY, network=network)).double()
    outputs = [
        graph.apply(lambda t: t.double() if t.is_floating_point() else t) for graph in graphs()
    ]
    batch = Batch.from_data_list(outputs)
    together = model(*inputs_of(batch), batch.batch, len(outputs))
    single = torch.cat([model(*inputs_of(graph)) for graph in outputs])
    torch.testing.assert_close(together, single, rtol=1e-10, atol=1e-10)
    assert together.shape == (3, 2)


def test_members_differ_in_weights_and_predictions():
    model = GraphEnsemble(GraphRegressorConfig(**TINY), 3)
    graph = graphs()[0]
    result = model(*inputs_of(graph))
    assert result.shape == (3, 1, 2)
    for own, member in zip(result, model.members, strict=True):
        torch.testing.assert_close(own, member(*inputs_of(graph)))
    assert not torch.allclose(result[0], result[1])


def test_initialization_like_the_authors_has_small_weights_and_zero_biases():
    """The matrices of the relabeling are parts of matrices of 2 H and H + 6 columns."""
    torch.manual_seed(0)
    model = GraphRegressionNetwork(GraphRegressorConfig(82, hidden_size=150))
    relabeling = "network.relabeling."
    joined = {f"{relabeling}neighbors": 300, f"{relabeling}edge_weight": 156}
    for name, parameter in model.named_parameters():
        if "bias" in name:
            assert not parameter.any(), name
        elif name != f"{relabeling}weight":
            expected = min(joined.get(name, parameter.shape[-1]) ** -0.5, 0.1)
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), name
    own = [weight.std().item() for weight in model.network.relabeling.weight.chunk(2)]
    assert own == pytest.approx([156**-0.5, 300**-0.5], rel=0.05)
    plain = GraphRegressionNetwork(GraphRegressorConfig(82, hidden_size=150, initial="fan-in"))
    bonds = plain.network.walks[0].edge_weight
    assert bonds.std().item() == pytest.approx(6**-0.5, rel=0.15)


def test_the_hidden_layer_is_a_relu_between_two_linear_maps():
    model = GraphRegressionNetwork(GraphRegressorConfig(**TINY))
    h = model.encode(*inputs_of(graphs()[0]))
    first, last = model.head[0], model.head[3]
    expected = torch.relu(h @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(model(*inputs_of(graphs()[0])), expected)


def test_gine_uses_edge_features():
    graph, with_edges = graphs()[0], GINE(3, 4, 2, edge_dim=2)
    changed = with_edges(graph.x, graph.edge_index, graph.edge_attr + 1)
    assert not torch.allclose(changed, with_edges(*inputs_of(graph)))


def test_references_of_each_level_reach_the_network():
    config = GraphRegressorConfig(**TINY, readout="sum", share_references=False)
    model, shared = (
        GraphRegressionNetwork(config),
        GraphRegressionNetwork(replace(config, share_references=True)),
    )
    assert [len(one.network.walks) for one in (model, shared)] == [config.depth, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"outputs": 0}, {"hidden_size": 1.5}, {"edge_dim": 0}, {"network": "gcn"},
        {"readout": "mean"}, {"initial": "zeros"}, {"decay": -1.0}, {"decay": "fast"},
        {"gate_scale": 0.0}, {"dropout": 1.0}, {"share_references": 1},
        {"compress": 1},
        {"share_references": False},  # of the last level alone
    ],
    ids=str,
)  # fmt: skip
def test_a_value_out_of_range_is_rejected(wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=f"^{name} is "):
        GraphRegressorConfig(3, **wrong)


def test_options_are_passed_to_the_network_and_the_head():
    model = GraphRegressionNetwork(
        GraphRegressorConfig(3, network="random-walk", order=3, dropout=0.3)
    )
    assert model.network.order == 3
    assert [m.p for m in model.head if isinstance(m, torch.nn.Dropout)] == [0.3]


def test_compress_applies_asinh_to_the_sums_of_walks():
    model, (data, *_) = (
        GraphRegressionNetwork(GraphRegressorConfig(**TINY, compress=True)),
        graphs(),
    )
    h = model.encode(*inputs_of(data))
    torch.testing.assert_close(model(*inputs_of(data)), model.head(torch.asinh(h)))


def test_gine_applies_its_layers_with_relu_and_sums_over_nodes():
    net, (data, *_) = GINE(3, 5, depth=2, edge_dim=2), graphs()
    h = net.embedding(data.x)
    for layer in net.layers:
        h = layer(h, data.edge_index, data.edge_attr).relu()
    torch.testing.assert_close(net(*inputs_of(data))[0], h.sum(0))
