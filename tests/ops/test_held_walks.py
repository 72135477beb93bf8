"""Walks with held gates: two forms of their kernels."""

from __future__ import annotations

import pytest
import torch

from representer.ops.held import HeldWalks

F64 = torch.float64


def held(order: int, combine: str, edges: int | None, seed: int) -> HeldWalks:
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=draw, dtype=F64)

    ends = torch.tensor([[0, 1, 2, 2, 4, 3], [1, 2, 0, 2, 3, 4]])
    features = None if edges is None else uniform(6, edges)
    of_graph = torch.tensor([0, 0, 0, 1, 1, 3])
    return HeldWalks(
        uniform(6, 2), ends, uniform(6, 3), features, of_graph, 4, order, combine
    )  # fmt: skip


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("edges", [None, 2])
def test_the_features_and_all_pairs_of_nodes_give_one_kernel(order, combine, edges):
    x, y = held(order, combine, edges, 0), held(order, combine, edges, 1)
    for units in (slice(None), slice(1, 2)):
        chosen, others = x.of_units(units), y.of_units(units)
        of_x, of_y = chosen.maps(), others.maps()
        by_features = torch.einsum("ghd,fhd->gf", of_x, of_y)
        torch.testing.assert_close(chosen.kernels(others), by_features)
        assert of_x.shape[2] == x.width
    assert not by_features[2].any()  # a graph without nodes


def test_an_activation_has_no_features_of_walks():
    assert held(2, "multiply", None, 0)._replace(sigma="exponential").width == 0
