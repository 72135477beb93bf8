"""The layer of each cell against its equations, and its constructor of torch or Keras."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import torch

from representer import nn
from representer.errors import ArgumentError, ShapeError
from representer.explain import memory_ledger
from representer.functional import (
    rkm,
)
from representer.nn import RKM
from representer.nn.recurrent.cells import TORCH_ORDER, layer_of

from ..layers import HIDDEN, INPUT, batch

# The RKM-LSTM with weights of Keras.


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


# The recurrent kernel machine of any q.


def _layer(**options) -> RKM:
    return RKM(INPUT, HIDDEN, dtype=torch.float64, **options)


@pytest.mark.parametrize("packed", [False, True])
def test_the_gaussian_form_has_finite_gradients_where_an_input_is_zero(packed: bool):
    layer, x = _layer(q="gaussian", num_layers=2, bidirectional=True), batch()
    x[2:4] = 0
    x.requires_grad_()
    given = x
    if packed:
        given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]))
    output = layer(given)[0]
    (output.data if packed else output).sum().backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters())]
    assert all(g is not None and g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("feedback", [False, True])
def test_a_callable_or_module_as_q_matches_the_q_of_that_name(feedback: bool):
    named, x = _layer(q="sigmoid", feedback=feedback), batch()
    for q in (torch.sigmoid, torch.nn.Sigmoid(), lambda z: 1 / (1 + (-z).exp())):
        other = _layer(q=q, feedback=feedback)
        other.load_state_dict(named.state_dict())
        torch.testing.assert_close(other(x)[0], named(x)[0])
        assert other.q is q
    assert named.q == "sigmoid"


def test_the_memory_before_the_first_step_is_0_and_not_q_of_0():
    layer = _layer(q="sigmoid", feedback=False)
    x = batch(1)
    expected = torch.sigmoid(x @ layer.filters()["candidate"][..., 0].T)
    torch.testing.assert_close(layer(x)[0], expected)


# The rows of L19 Table 1 as constructors.


ROWS = {
    "LSTM": rkm.LSTM, "RKM-LSTM": rkm.RKM_LSTM, "RKM-CIFG": rkm.RKM_CIFG,
    "Linear Kernel w/ o_t": rkm.LINEAR_KERNEL_GATED, "Linear Kernel": rkm.LINEAR_KERNEL,
    "Gated CNN": rkm.GATED_CNN, "CNN": rkm.CNN,
}  # fmt: skip
EVERY_ROW = pytest.mark.parametrize("row", ROWS)
AS_IN_TORCH = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout"]
AS_IN_TORCH += ["bidirectional"]
OWN = ["filter_length", "dilation", "filters", "layer_norm", "output_nonlinearity", "forget_bias"]


@pytest.mark.parametrize("name", ["my-cell", "my.cell v1.2", "a/b+c"])
def test_a_layer_of_a_cell_without_a_class_is_pickled(name: str, monkeypatch: pytest.MonkeyPatch):
    declared = layer_of(name, rkm.Cell("coupled", "dynamic", False, output="tanh"))
    monkeypatch.setitem(nn.TABLE1, name, declared)
    layer, x = declared(3, 4), torch.randn(5, 2, 3)
    twin = pickle.loads(pickle.dumps(layer))
    assert type(twin) is declared
    assert torch.equal(twin(x)[0], layer(x)[0])


def test_the_rows_have_the_names_and_order_of_the_paper():
    assert list(nn.TABLE1)[: len(ROWS)] == list(ROWS)  # others follow


@EVERY_ROW
def test_a_row_builds_its_cell(row: str):
    assert nn.TABLE1[row](3, 4).cell == ROWS[row]


@EVERY_ROW
def test_a_row_accepts_every_option_in_the_order_of_torch(row: str):
    parameters = list(inspect.signature(nn.TABLE1[row]).parameters)
    assert parameters[: len(AS_IN_TORCH)] == AS_IN_TORCH
    assert {*OWN, "device", "dtype"} <= set(parameters[len(AS_IN_TORCH) :])
    layer = nn.TABLE1[row](3, 4, 2, True, True, 0.5, True)
    assert layer(torch.zeros(2, 5, 3))[0].shape == (2, 5, 8)
