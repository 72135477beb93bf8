"""The recurrent additive network."""

from __future__ import annotations

import torch

from ..layers import batch, build


def test_the_output_is_the_cell():
    output, state = build("RAN")(batch())
    torch.testing.assert_close(state.h, state.c)
    torch.testing.assert_close(output[-1], state.c[0])


def test_the_candidate_does_not_depend_on_the_previous_output():
    layer = build("RAN")
    assert "candidate" not in layer.recurrent()
    with torch.no_grad():
        assert layer.cell.biased_gates == ("input", "forget")
        for gate, value in zip(layer.bias_l0.chunk(2), (800.0, -800.0), strict=True):
            gate.fill_(value)  # open and closed
    x = batch()
    expected = x @ layer.filters()["candidate"][..., 0].T
    torch.testing.assert_close(layer(x)[0], expected)
