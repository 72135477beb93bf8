"""The RKM-LSTM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from representer import nn
from representer.errors import ArgumentError, ShapeError
from representer.explain import memory_ledger
from representer.nn.recurrent.cells import TORCH_ORDER

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


def keras_lstm(x, kernel, recurrent, bias=0.0):
    """Return the outputs ``(B, T, H)`` of Keras's LSTM with a linear activation, in NumPy."""
    h = c = np.zeros((len(x), len(recurrent)))
    outputs = []
    for step in x.swapaxes(0, 1):
        i, f, z, o = np.split(step @ kernel + h @ recurrent + bias, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * z
        h = o * c
        outputs.append(h)
    return np.stack(outputs, axis=1)


def keras_weights(seed=0, features=3, units=4):
    """Return arrays as ``layer.get_weights()`` returns them."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in ((features, 16), (units, 16), (4 * units,))]


@pytest.mark.parametrize("count", [2, 3])
def test_weights_of_keras_give_the_same_outputs(count):
    weights, x = keras_weights()[:count], np.random.default_rng(1).normal(size=(2, 6, 3))
    layer = nn.RKMLSTM.from_keras(weights)
    output, state = layer(torch.from_numpy(x))
    expected = keras_lstm(x, *weights)
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_array_equal(state.h[0].detach(), output[:, -1].detach())
    assert set(layer.biases()) == (set(TORCH_ORDER) if count == 3 else set())


def test_both_directions_of_keras_are_converted():
    forward, backward = keras_weights(0), keras_weights(1)
    x = np.random.default_rng(2).normal(size=(2, 5, 3)).astype(np.float32)
    pair = [one.astype(np.float32) for one in (*forward, *backward)]
    output, _ = nn.RKMLSTM.from_keras(pair)(torch.from_numpy(x))
    expected = [keras_lstm(x, *forward), keras_lstm(x[:, ::-1], *backward)[:, ::-1]]
    np.testing.assert_allclose(output.detach(), np.concatenate(expected, axis=2), rtol=1e-4)


def test_the_contributions_of_a_layer_with_a_candidate_bias_sum_to_its_output():
    layer = nn.RKMLSTM.from_keras(keras_weights())
    x = torch.randn(6, 3, dtype=torch.float64)
    ledger = memory_ledger(layer, x, weights := torch.randn(6, 4, dtype=torch.float64))
    assert ledger.total == pytest.approx((layer(x)[0] * weights).sum().item(), rel=1e-10)


def test_weights_of_other_layers_of_keras_are_refused():
    kernel, recurrent, bias = keras_weights()
    with pytest.raises(
        ArgumentError, match=r"len\(weights\) is 1; expected 3, as layer.get_weights\(\)"
    ):
        nn.RKMLSTM.from_keras([kernel])
    with pytest.raises(ShapeError, match=r"weights\[0\] has shape \(3, 12\); expected \(3, 16\)"):
        nn.RKMLSTM.from_keras([kernel[:, :12], recurrent[:, :12], bias[:12]])
