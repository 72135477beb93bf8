"""All walks sum to the read-out, and each contribution is a weighted sum over units."""

from __future__ import annotations

import pytest
import torch

from drawn_graphs import F64, graph
from representer.errors import KindError, ShapeError
from representer.explain import top_walks, walk_readout
from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, WLKernelNN

OPTIONS = [
    {"decay": 0.5},
    {"decay": "learned", "edge_dim": 2},
    {"decay": "gated", "edge_dim": 2, "gate_scale": 10.0},
]


def output_of(net, data):
    return net(data.x, data.edge_index, None if net.edge_dim is None else data.edge_attr)[0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
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
