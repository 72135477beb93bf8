"""Which walks a graph network used."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

from drawn_graphs import F64, edge_features, graph
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import top_walks, walk_readout
from representer.explain.walk_explainer import WalkExplainer
from representer.functional.walks import walks
from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, WLKernelNN

# The largest walks match an enumeration, and all walks sum to the output.


OPTIONS = [
    {"decay": 0.5}, {"decay": "learned", "edge_dim": 2},
    {"decay": "gated", "edge_dim": 2, "gate_scale": 10.0}, {"decay": "gated"},
]  # fmt: skip


def random_network(kind, seed: int, order: int, **options):
    torch.manual_seed(seed)
    net = kind(3, 2, order=order, dtype=F64, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    return net


@pytest.mark.parametrize("kind", [RandomWalkKernelNN, WLKernelNN])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
@settings(deadline=None, max_examples=8)
@given(n=st.integers(1, 4), seed=st.integers(0, 2**16), nodes=st.integers(1, 6))
def test_all_walks_are_found_and_sum_to_the_output(kind, options, n, seed, nodes):
    G, net = graph(seed, nodes), random_network(kind, seed, n, **options)
    states = net.node_states(G.x, G.edge_index, edge_features(net, G), **(
        {"level": 3} if kind is WLKernelNN else {}
    ))  # fmt: skip
    result = top_walks(net, G, 1, 10_000)
    expected = sorted(tuple(path) for path, _ in walks(G.edge_index, nodes, n))
    assert sorted(walk.positions for walk in result) == expected
    total = torch.tensor([walk.contribution for walk in result], dtype=F64).sum()
    torch.testing.assert_close(total, states[:, -1, 1].sum().detach(), rtol=1e-9, atol=1e-9)
    sizes = [abs(walk.contribution) for walk in result]
    assert sizes == sorted(sizes, reverse=True)


def test_the_walk_equal_to_the_reference_is_the_largest():
    net = random_network(RandomWalkKernelNN, 0, 3)
    net.references()[0] = torch.eye(3, dtype=F64)
    path = Data(x=torch.eye(3, dtype=F64), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    (first, second) = top_walks(net, path, 0, 2)
    assert first == ((0, 1, 2), 1.0)
    assert second.contribution == 0


@pytest.mark.parametrize(("net", "arguments", "error", "message"), [
    (
        DeepGraphKernelNN(3, 2), (0, 1), KindError,
        "expected a RandomWalkKernelNN, WLKernelNN or TreeKernelNN",
    ),
    (RandomWalkKernelNN(3, 2), (2, 1), ArgumentError, "unit is 2"),
    (RandomWalkKernelNN(3, 2), (0, 0), ArgumentError, "k is 0"),
    (RandomWalkKernelNN(3, 2, combine="add"), (0, 1), KindError, "combine='multiply'"),
    (RandomWalkKernelNN(3, 2, nonlinear=True), (0, 1), KindError, "nonlinear=False"),
])  # fmt: skip
def test_unsupported_networks_and_arguments_are_rejected(net, arguments, error, message):
    with pytest.raises(error, match=message):
        top_walks(net.double(), graph(0), *arguments)


# Exact masks of nodes and edges in PyG's ``Explainer``.


EDGES = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 1]])


def explain(net, x, edge_attr=None, **algorithm):
    explainer = Explainer(
        net, WalkExplainer(**algorithm), explanation_type="model", node_mask_type="object",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )  # fmt: skip
    return explainer(x, EDGES, edge_attr=edge_attr)


@pytest.mark.parametrize("kind", [RandomWalkKernelNN, WLKernelNN])
def test_both_masks_sum_to_the_output(kind):
    net = kind(3, 2, order=2, edge_dim=2).double()
    x, edge_attr = torch.randn(5, 3).double(), torch.randn(6, 2).double()
    found = explain(net, x, edge_attr)
    output = net(x, EDGES, edge_attr).sum().detach()
    torch.testing.assert_close(found.node_mask.sum(), output)
    torch.testing.assert_close(found.edge_mask.sum(), output)
    assert found.node_mask[4] == 0  # no walk has this node
    one = explain(net, x, edge_attr, weights=torch.tensor([0.0, 1.0]).double())
    torch.testing.assert_close(one.node_mask.sum(), net(x, EDGES, edge_attr)[0, 1].detach())


def test_an_edge_of_no_contribution_has_the_mask_0():
    net, x = RandomWalkKernelNN(3, 1, order=2).double(), torch.randn(5, 3).double()
    x[0] = 0  # products with this node are 0
    found = explain(net, x)
    assert (found.edge_mask == 0).tolist() == (EDGES == 0).any(0).tolist()
    with pytest.raises(ValueError, match="does not support the given explanation settings"):
        Explainer(
            net, WalkExplainer(), explanation_type="model", node_mask_type="attributes",
            model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
        )  # fmt: skip


# All walks sum to the read-out, and each contribution is a weighted sum over units.


READOUT_OPTIONS = [
    {"decay": 0.5},
    {"decay": "learned", "edge_dim": 2},
    {"decay": "gated", "edge_dim": 2, "gate_scale": 10.0},
]


def output_of(net, data):
    return net(data.x, data.edge_index, None if net.edge_dim is None else data.edge_attr)[0]


@pytest.mark.parametrize("options", READOUT_OPTIONS, ids=str)
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("kind", ["walk", "sum", "last"])
def test_all_walks_sum_to_the_readout(options, order, kind):
    if kind == "walk":
        net = RandomWalkKernelNN(3, 4, order=order, dtype=F64, **options)
    else:
        net = WLKernelNN(3, 4, depth=3, order=order, readout=kind, dtype=F64, **options)  # type: ignore[arg-type]
    for data in (graph(), graph(1, 1, 0), graph(3, 3, 0)):
        weights = torch.randn(4, dtype=F64)
        result = walk_readout(net, data, weights)
        total = torch.tensor([term for _, term in result], dtype=F64).sum()
        torch.testing.assert_close(
            total, weights @ output_of(net, data).detach(), rtol=1e-10, atol=1e-10
        )
        assert len({walk for walk, _ in result}) == len(result)
        sizes = [abs(term) for _, term in result]
        assert sizes == sorted(sizes, reverse=True)


def test_a_contribution_is_the_weighted_sum_over_the_units():
    net = WLKernelNN(3, 4, depth=2, order=3, readout="sum", dtype=F64, decay="gated")
    data, weights = graph(), torch.randn(4, dtype=F64)
    expected: dict[tuple[int, ...], float] = {}
    for unit in range(4):
        for level in range(2):
            for walk, term in top_walks(net, data, unit, 10_000, level):
                expected[walk] = expected.get(walk, 0.0) + weights[unit].item() * term
    result = dict(walk_readout(net, data, weights))
    assert result.keys() == expected.keys()
    for walk, term in result.items():
        assert term == pytest.approx(expected[walk], rel=1e-9, abs=1e-12)


def test_unsupported_networks_and_weights_are_rejected():
    weights = torch.ones(4, dtype=F64)
    with pytest.raises(KindError, match="not a sum over walks"):
        walk_readout(RandomWalkKernelNN(3, 4, combine="add", dtype=F64), graph(), weights)
    with pytest.raises(KindError, match="RandomWalkKernelNN, WLKernelNN or TreeKernelNN"):
        walk_readout(DeepGraphKernelNN(3, 4, num_layers=2, dtype=F64), graph(), weights)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="one per unit"):
        walk_readout(RandomWalkKernelNN(3, 4, dtype=F64), graph(), weights[:2])
