"""The RKM-LSTM."""

from __future__ import annotations

import torch

from .layers import batch, build


def test_it_is_linear_in_its_candidates():
    """Without a bias and a tanh there: twice the candidate filters, twice the output."""
    layer, x = build("RKM-LSTM", filter_length=2), batch()
    for gate in layer.directions[0].recurrent.unbind(0):
        torch.nn.init.zeros_(gate)  # else the gates see the larger output
    output, state = layer(x)
    candidate = layer.cell.gates.index("candidate")
    with torch.no_grad():
        layer.directions[0].filters.weights[0][candidate].mul_(2)
    doubled, doubled_state = layer(x)
    torch.testing.assert_close(doubled, 2 * output)
    torch.testing.assert_close(doubled_state.c, 2 * state.c)


def test_with_tanh_on_the_output_the_carried_cell_stays_linear():
    plain, squashed = (build("RKM-LSTM", output_nonlinearity=f) for f in (None, "tanh"))
    squashed.load_state_dict(plain.state_dict())
    x = batch(1)
    (output, state), (bounded, other) = plain(x), squashed(x)
    torch.testing.assert_close(other.c, state.c)
    gate = output[0] / state.c[0]
    torch.testing.assert_close(bounded[0], gate * state.c[0].tanh())
