"""The recurrent additive network."""

from __future__ import annotations

import torch

from .layers import batch, build


def test_the_emission_is_the_cell():
    output, state = build("RAN")(batch())
    torch.testing.assert_close(state.h, state.c)
    torch.testing.assert_close(output[-1], state.c[0])


def test_the_candidate_does_not_see_the_last_emission():
    layer = build("RAN")
    assert "candidate" not in layer.recurrent()
    with torch.no_grad():
        layer.directions[0].bias[layer.cell.biased_gates.index("input")] = 800.0  # open
        layer.directions[0].bias[layer.cell.biased_gates.index("forget")] = -800.0  # shut
    x = batch()
    expected = x @ layer.filters()["candidate"][..., 0].T
    torch.testing.assert_close(layer(x)[0], expected)
