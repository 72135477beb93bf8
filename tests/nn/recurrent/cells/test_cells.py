"""The layer of each cell against its equations, and its constructor of torch or Keras."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d, pad

from representer import nn
from representer.errors import ArgumentError, ShapeError
from representer.explain import memory_ledger
from representer.functional import (
    rkm,
)
from representer.nn import RKM, LinearKernelRNN
from representer.nn.recurrent.cells import TORCH_ORDER

from ..layers import HIDDEN, INPUT, batch, build

# The convolutional network.


@pytest.mark.parametrize("dilation", [1, 2])
def test_the_layer_matches_a_causal_convolution_of_torch(dilation: int):
    layer, x = build("CNN", filter_length=3, dilation=dilation), batch()
    kernel = layer.filters()["candidate"].flip(-1)  # conv1d's slots run with time
    padded = torch.nn.functional.pad(x.permute(1, 2, 0), (2 * dilation, 0))
    expected = torch.nn.functional.conv1d(padded, kernel, dilation=dilation).tanh()
    torch.testing.assert_close(layer(x)[0], expected.permute(2, 0, 1))


# The gated convolutional network.


def test_the_layer_matches_two_convolutions_of_torch_with_one_as_the_gate():
    layer, x = build("Gated CNN", filter_length=3), batch()
    filters, padded = layer.filters(), pad(x.permute(1, 2, 0), (2, 0))
    gate = conv1d(padded, filters["output"].flip(-1), layer.biases()["output"]).sigmoid()
    expected = gate * conv1d(padded, filters["candidate"].flip(-1))
    torch.testing.assert_close(layer(x)[0], expected.permute(2, 0, 1))


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


# The recurrent additive network.


# The RKM-CIFG.


# The linear kernel with static gates.


def test_the_elementwise_recurrence_and_the_general_one_agree():
    quick = build("Linear Kernel, no feedback")
    general = build("Linear Kernel, no feedback", zoneout=1e-30)  # which uses the general path
    general.load_state_dict(quick.state_dict())
    x = batch(40)
    torch.testing.assert_close(general(x)[0], quick(x)[0])
    torch.testing.assert_close(general(x)[1].c, quick(x)[1].c)


def test_without_an_output_gate_the_output_is_tanh_of_the_cell():
    output, state = build("Linear Kernel")(batch())
    torch.testing.assert_close(output[-1], state.c[0].tanh())


def test_learned_static_gates_are_parameters_and_fixed_ones_are_not():
    fixed, learned = (LinearKernelRNN(3, 4, learn_static_gates=flag) for flag in (False, True))
    more = set(dict(learned.named_parameters())) - set(dict(fixed.named_parameters()))
    assert more == {"static_gates_l0.input_logit", "static_gates_l0.forget_logit"}


# The RKM-LSTM.


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


def test_a_reference_is_a_filter_oldest_slot_first():
    layer = _layer(filter_length=3)
    references, filters = layer.references(), layer.filters()["candidate"]
    assert references.shape == (HIDDEN, 3, INPUT)
    for s in range(3):
        assert torch.equal(references[:, 2 - s], filters[..., s])


@pytest.mark.parametrize("feedback", [False, True])
def test_a_callable_or_module_as_q_matches_the_q_of_that_name(feedback: bool):
    named, x = _layer(q="sigmoid", feedback=feedback), batch()
    for q in (torch.sigmoid, torch.nn.Sigmoid(), lambda z: 1 / (1 + (-z).exp())):
        other = _layer(q=q, feedback=feedback)
        other.load_state_dict(named.state_dict())
        torch.testing.assert_close(other(x)[0], named(x)[0])
        assert other.q is q
    assert named.q == "sigmoid"


def test_a_layer_with_a_module_as_q_can_be_copied_and_pickled():
    layer, x = _layer(q=torch.nn.PReLU(dtype=torch.float64)), batch()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(x)[0], layer(x)[0])
        assert twin.q is not layer.q


def test_the_memory_before_the_first_step_is_0_and_not_q_of_0():
    layer = _layer(q="sigmoid", feedback=False)
    x = batch(1)
    expected = torch.sigmoid(x @ layer.filters()["candidate"][..., 0].T)
    torch.testing.assert_close(layer(x)[0], expected)


def test_there_are_no_biases_and_only_feedback_has_a_matrix():
    assert _layer().biases() == {}
    assert set(_layer().recurrent()) == {"candidate"}
    assert _layer(feedback=False).recurrent() == {}


def test_an_unknown_q_is_rejected():
    with pytest.raises(ArgumentError, match=r"q is 'gelu'; expected a callable or one of .*"):
        _layer(q="gelu")


# The rows of L19 Table 1 as constructors.


ROWS = {
    "LSTM": (rkm.LSTM, 720_000, 1_440_000), "RKM-LSTM": (rkm.RKM_LSTM, 720_000, 1_440_000),
    "RKM-CIFG": (rkm.RKM_CIFG, 540_000, 1_080_000),
    "Linear Kernel w/ o_t": (rkm.LINEAR_KERNEL_GATED, 360_000, 720_000),
    "Linear Kernel": (rkm.LINEAR_KERNEL, 180_000, 360_000),
    "Gated CNN": (rkm.GATED_CNN, 180_000, 540_000), "CNN": (rkm.CNN, 90_000, 270_000),
}  # fmt: skip
EVERY_ROW = pytest.mark.parametrize("row", ROWS)
AS_IN_TORCH = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout"]
AS_IN_TORCH += ["bidirectional"]
OWN = ["filter_length", "dilation", "filters", "layer_norm", "output_nonlinearity", "forget_bias"]


def test_the_rows_have_the_names_and_order_of_the_paper():
    assert list(nn.TABLE1)[: len(ROWS)] == list(ROWS)  # others follow


@EVERY_ROW
@pytest.mark.parametrize("n", [1, 3])
def test_the_numbers_of_parameters_are_those_of_table_2(row: str, n: int):
    """At m = d = 300; biases and norms are not counted (L19 Table 2)."""
    layer = nn.TABLE1[row](300, 300, filter_length=n, layer_norm=True, device="meta")
    counted = [p for p in layer.parameters() if p.dim() > 1]
    assert sum(p.numel() for p in counted) == ROWS[row][1 if n == 1 else 2]
    others = [k for k, p in layer.named_parameters() if p.dim() <= 1]
    assert all("bias" in k or "norm" in k for k in others)


@EVERY_ROW
def test_a_row_builds_its_cell(row: str):
    assert nn.TABLE1[row](3, 4).cell == ROWS[row][0]


@EVERY_ROW
def test_a_row_accepts_every_option_in_the_order_of_torch(row: str):
    parameters = list(inspect.signature(nn.TABLE1[row]).parameters)
    assert parameters[: len(AS_IN_TORCH)] == AS_IN_TORCH
    assert {*OWN, "device", "dtype"} <= set(parameters[len(AS_IN_TORCH) :])
    layer = nn.TABLE1[row](3, 4, 2, True, True, 0.5, True)
    assert layer(torch.zeros(2, 5, 3))[0].shape == (2, 5, 8)
