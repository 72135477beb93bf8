from __future__ import annotations

from functools import partial

import pytest
import torch

from looped import looped
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import influence
from representer.functional import ngram_product_definition
from representer.nn import (
    CNN,
    RAN,
    RKM,
    RKMCIFG,
    RKMLSTM,
    GatedCNN,
    LinearKernelRNN,
    NgramLSTM,
)

GATED = {
    "RKM-LSTM": RKMLSTM,
    "RKM-CIFG": RKMCIFG,
    "RAN": RAN,
    "Gated CNN": GatedCNN,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True, static_gates=(0.7, 0.4)),
    "learned gates": partial(
        LinearKernelRNN, output_gate=False, output_nonlinearity="identity", static_gates=(0.7, 0.4),
        learn_static_gates=True,
    ),
    "RKM-LSTM, linear output": partial(RKMLSTM, output_nonlinearity="linear"),
    "RKM-LSTM with zoneout": lambda *a, **k: RKMLSTM(*a, zoneout=(0.2, 0.3), **k).eval(),
    "linear RKM": partial(RKM, q="linear"),
    "identity RKM": partial(RKM, q="identity", feedback=False),
}  # fmt: skip


def frozen_gradient_times_input(layer, x):
    """Return the contributions by autograd: x_s . dh_T/dx_s with detached gates."""
    x, cell = x.clone().requires_grad_(), layer.cell
    filters, recurrent, biases = layer.filters(), layer.recurrent(), layer.biases()
    static = layer.static_gates()
    products = {g: ngram_product_definition(x[:, None], w, layer.dilation)[:, 0]
                for g, w in filters.items()}  # fmt: skip
    h = c = torch.zeros(layer.hidden_size, dtype=x.dtype)
    for t in range(len(x)):
        z = {g: p[t] + (recurrent[g] @ h if g in recurrent else 0) for g, p in products.items()}
        gates = {g: torch.sigmoid(z[g] + biases.get(g, 0)).detach() for g in cell.gates}
        i = {"coupled": lambda g=gates: 1 - g["forget"], "dynamic": lambda g=gates: g["input"]}
        i_t = static[0] if cell.input_gate == "static" else i[cell.input_gate]()
        c_new = i_t * z["candidate"]
        if cell.forget_gate != "none":
            f_t = static[1] if cell.forget_gate == "static" else gates["forget"]
            c_new = c_new + f_t * (h if cell.memory == "output" else c)
        h_new = c_new / 2 if cell.output == "linear" else c_new
        h_new = h_new * gates["output"] if cell.output_gate else h_new
        p_c, p_h = layer.zoneout
        c, h = p_c * c + (1 - p_c) * c_new, p_h * h + (1 - p_h) * h_new
    gradients = [torch.autograd.grad(unit, x, retain_graph=True)[0] for unit in h]
    return torch.stack([(gradient * x).sum(1) for gradient in gradients], dim=1).detach()


@pytest.mark.parametrize("make", GATED.values(), ids=GATED.keys())
@looped(("n", "dilation"), [(1, 1), (2, 3), (3, 1), ({1: 2, 3: 2}, 2)])
def test_contributions_match_gradient_times_input_with_detached_gates(make, n, dilation):
    layer = make(3, 4, filter_length=n, dilation=dilation, dtype=torch.float64)
    x = torch.randn(8, 3, dtype=torch.float64)
    contributions = influence(layer, x)
    torch.testing.assert_close(contributions, frozen_gradient_times_input(layer, x))
    torch.testing.assert_close(contributions.sum(0), layer(x)[0][-1])


def test_weight_drop_and_input_dropout_are_disabled():
    layer = RKMLSTM(3, 4, weight_drop=0.5, variational_dropout=0.5, dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64)
    contributions = influence(layer.train(), x)
    assert layer.training
    torch.testing.assert_close(contributions.sum(0), layer.eval()(x)[0][-1])


def test_a_step_of_zeros_contributes_nothing():
    x = torch.randn(5, 3)
    x[2] = 0
    contributions = influence(RKMLSTM(3, 4, filter_length=2), x)
    assert not contributions[2].any()
    assert contributions[[0, 1, 3, 4]].all()


def test_contributions_have_the_dtype_of_the_input_and_are_detached():
    contributions = influence(RKMCIFG(3, 4), torch.randn(5, 3, requires_grad=True))
    assert (contributions.dtype, contributions.requires_grad) == (torch.float32, False)


NOT_DECOMPOSABLE = {
    "tanh on the candidate": (NgramLSTM(3, 4), "The candidate passes through tanh"),
    "tanh on the output": (CNN(3, 4), "The output is tanh of the cell"),
    "another q": (RKM(3, 4, q="exponential"), "The output is exponential of the cell"),
    "Gaussian": (RKM(3, 4, q="gaussian"), "The output is gaussian of the cell"),
    "callable": (RKMLSTM(3, 4, output_nonlinearity=torch.sin), "nonlinearity is learned"),
    "norm": (RAN(3, 4, layer_norm=True), "The layer norm divides"),
    "layers": (RAN(3, 4, 2), "It has several layers"),
    "directions": (RAN(3, 4, bidirectional=True), "It has two directions"),
    "of torch": (torch.nn.LSTM(3, 4), "layer is LSTM; expected a layer of the recurrent kernel"),
}


@pytest.mark.parametrize(
    ("layer", "reason"), NOT_DECOMPOSABLE.values(), ids=NOT_DECOMPOSABLE.keys()
)
def test_a_layer_that_is_not_decomposable_is_rejected_with_the_reason(layer, reason):
    with pytest.raises(KindError, match=reason):
        influence(layer, torch.randn(5, 3))


@pytest.mark.parametrize(
    ("input", "error", "message"),
    [
        (torch.zeros(5, 2, 3), ShapeError, r"input has shape \(5, 2, 3\); expected one sequence"),
        (torch.zeros(5, 4), ShapeError, r"The last axis is 4, input_size is 3"),
        (torch.zeros(0, 3), ShapeError, "at least one time step"),
        (torch.zeros(5, 3).int(), KindError, r"input is torch.int32"),
        (torch.zeros(5, 3).double(), KindError, r"input is torch.float64"),
        ([[0.0, 0.0, 0.0]], KindError, r"input is list; expected a tensor \(time, 3\)"),
    ],
)
def test_an_invalid_input_is_rejected(input, error, message):
    with pytest.raises(error, match=message):
        influence(RAN(3, 4), input)


def test_a_layer_with_a_stride_is_rejected():
    layer = RKMLSTM(3, 4, filter_length=2, stride=2)
    with pytest.raises(ArgumentError, match=r"layer\.stride is 2; expected 1"):
        influence(layer, torch.zeros(6, 3))
