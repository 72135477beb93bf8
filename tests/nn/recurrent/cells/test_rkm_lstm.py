"""The RKM-LSTM."""

from __future__ import annotations

import torch

from ..layers import batch, build


def test_the_layer_is_linear_in_its_candidates():
    """Without bias and tanh, doubling the candidate filters doubles the output."""
    layer, x = build("RKM-LSTM", filter_length=2), batch()
    torch.nn.init.zeros_(layer.get_parameter("weight_hh_l0"))  # gates do not depend on the output
    output, state = layer(x)
    assert layer.cell.gates[0] == "candidate"
    with torch.no_grad():
        layer.get_parameter("weight_ih_l0")[: layer.hidden_size].mul_(2)
    doubled, doubled_state = layer(x)
    torch.testing.assert_close(doubled, 2 * output)
    torch.testing.assert_close(doubled_state.c, 2 * state.c)


def test_with_tanh_on_the_output_the_cell_stays_linear():
    plain, squashed = (build("RKM-LSTM", output_nonlinearity=f) for f in (None, "tanh"))
    squashed.load_state_dict(plain.state_dict())
    x = batch(1)
    (output, state), (bounded, other) = plain(x), squashed(x)
    torch.testing.assert_close(other.c, state.c)
    gate = output[0] / state.c[0]
    torch.testing.assert_close(bounded[0], gate * state.c[0].tanh())
