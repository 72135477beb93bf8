"""The RKM-CIFG."""

from __future__ import annotations

import torch

from ..layers import batch, build


def test_the_cell_is_a_weighted_mean_of_candidate_and_previous_cell():
    """The gates sum to 1, so a constant input is preserved."""
    layer, x = build("RKM-CIFG"), batch(1)
    filters, recurrent = layer.filters()["candidate"][..., 0], layer.recurrent()["candidate"]
    h = torch.randn(1, 3, 4, dtype=torch.float64)
    candidate = x @ filters.T + h @ recurrent.T
    _, state = layer(x, (h, candidate))
    torch.testing.assert_close(state.c, candidate)


def test_the_layer_has_no_input_gate():
    layer = build("RKM-CIFG")
    assert "input" not in layer.filters()
    assert len(layer.recurrent()) == 3
