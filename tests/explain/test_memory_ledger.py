from __future__ import annotations

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from looped import looped
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import influence, memory_ledger
from representer.nn import CNN, RAN, RKM, RKMCIFG, RKMLSTM, GatedCNN, LinearKernelRNN, NgramLSTM

CELLS = {
    "RKM-LSTM": RKMLSTM, "RKM-CIFG": RKMCIFG, "RAN": RAN, "Gated CNN": GatedCNN,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True, static_gates=(0.7, 0.4)),
    "linear output": partial(RKMLSTM, output_nonlinearity="linear"),
    "linear RKM": partial(RKM, q="linear"),
}  # fmt: skip
TANH = {  # on the output, whose slope at the present memory is held constant
    "Linear Kernel": partial(LinearKernelRNN, static_gates=(0.7, 0.4)),
    "CNN": CNN,
    "RKM-LSTM with tanh": partial(RKMLSTM, output_nonlinearity="tanh"),
}
ZONEOUT = {"zoneout": (0.2, 0.3)}


def random_layer(make, **options):
    layer = make(3, 4, dtype=torch.float64, **options).eval()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.normal_()
    return layer


@pytest.mark.parametrize("make", (CELLS | TANH).values(), ids=CELLS | TANH)
@looped("layer_norm", [False, True])
@looped(("n", "dilation", "zoneout"), [(1, 1, 0), (3, 2, 0), (2, 1, 1)])
def test_contributions_and_constant_sum_to_the_readout(make, layer_norm, n, dilation, zoneout):
    options = ZONEOUT if zoneout and make not in (GatedCNN, CNN) else {}
    layer = random_layer(make, filter_length=n, dilation=dilation, layer_norm=layer_norm, **options)
    x, v = torch.randn(8, 3).double(), torch.randn(8, 4).double()
    ledger = memory_ledger(layer, x, v)
    y = (v * layer(x)[0]).sum().item()
    assert ledger.total == pytest.approx(y, rel=1e-10)
    assert layer_norm or ledger.constant == 0


@pytest.mark.parametrize(("n", "dilation"), [(5, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_layer_with_a_stride_has_contributions_by_input_and_by_window(layer_norm, n, dilation):
    layer = random_layer(
        RKMLSTM, filter_length=n, dilation=dilation, stride=3, layer_norm=layer_norm
    )
    x, v = torch.randn(12, 3).double(), torch.randn(4, 4).double()
    ledger = memory_ledger(layer, x, v)
    y = (v * layer(x)[0]).sum().item()
    assert ledger.total == pytest.approx(y, rel=1e-10)
    assert ledger.by_ngram.sum().item() + ledger.constant == pytest.approx(y, rel=1e-10)
    assert (x * ledger.input_weights).sum().item() + ledger.constant == pytest.approx(y, rel=1e-10)
    row = ledger.rows(1)[0]
    assert row.written == ledger.written[row.step // 3, row.unit]
    first_window = memory_ledger(layer, x[:3], v[:1])  # ends at the third input
    assert (first_window.contribution[:, 0] != 0).tolist() == [
        (2 - t) % dilation == 0 and 2 - t < n * dilation for t in range(3)
    ]
    with pytest.raises(ShapeError, match="a multiple of 3 time steps"):
        memory_ledger(layer, x[:10], v[:3])


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_without_layer_norm_contributions_equal_influence(make):
    layer, x = random_layer(make, filter_length=2), torch.randn(7, 3).double()
    contributions = influence(layer, x)
    for unit in range(4):
        v = torch.zeros(7, 4).double()
        v[-1, unit] = 1
        assert_close(memory_ledger(layer, x, v).contribution.sum(1), contributions[:, unit])


@pytest.mark.parametrize("make", [CNN, GatedCNN])
def test_a_cell_without_memory_keeps_nothing(make):
    ledger = memory_ledger(random_layer(make), torch.randn(5, 3).double(), torch.ones(5, 4))
    assert ledger.kept[:, 0].tolist() == [0, 0, 0, 0, 1]


def test_coupled_and_static_gates_are_shown():
    x, v = torch.randn(5, 3).double(), torch.ones(5, 4)
    coupled = memory_ledger(random_layer(RKMCIFG), x, v)
    assert_close(coupled.kept[-2], 1 - coupled.written[-1])
    static = memory_ledger(random_layer(LinearKernelRNN, static_gates=(0.7, 0.4)), x, v)
    assert_close(static.written, torch.full((5, 4), 0.7).double())
    assert_close(static.kept[:, 0], 0.4 ** torch.arange(4.0, -1, -1).double())


def test_a_layer_is_explained_in_inference_mode_without_a_history():
    x, v = torch.randn(6, 3).double(), torch.randn(6, 4).double()
    layer = random_layer(RKMLSTM, layer_norm=True, candidate_bias=True)
    expected = memory_ledger(layer, x, v)
    with torch.inference_mode():
        ledger = memory_ledger(deepcopy(layer), x.clone(), v.clone())
    for field in ("contribution", "written", "kept", "read", "input_weights", "by_ngram"):
        assert not getattr(expected, field).requires_grad
        assert_close(getattr(ledger, field), getattr(expected, field))
    assert ledger.constant == pytest.approx(expected.constant)


def test_contributions_with_layer_norm_match_autograd_with_a_detached_divisor():
    """The gates are detached, too."""
    layer, x = random_layer(LinearKernelRNN, output_gate=True, layer_norm=True), torch.randn(6, 3)
    x = x.double().requires_grad_()
    norm, static = layer.cell_norm(), layer.static_gates()
    filters, recurrent, biases = layer.filters(), layer.recurrent(), layer.biases()
    h = c = torch.zeros(4).double()
    y = torch.zeros(()).double()
    v = torch.randn(6, 4).double()
    for t in range(6):
        z = {g: filters[g][..., 0] @ x[t] + recurrent[g] @ h for g in filters}
        raw = static[0] * z["candidate"] + static[1] * c
        std = (raw.var(unbiased=False) + 1e-5).sqrt().detach()
        c = norm.weight * (raw - raw.mean()) / std + norm.bias
        h = torch.sigmoid(z["output"] + biases["output"]).detach() * c
        y = y + (v[t] * h).sum()
    (gradient,) = torch.autograd.grad(y, x)
    contributions = memory_ledger(layer, x.detach(), v).contribution.sum(1)
    assert_close(contributions, (gradient * x).sum(1).detach())


def test_rows_are_the_largest_steps_with_their_largest_unit():
    layer, x, v = random_layer(RKMCIFG), torch.randn(9, 3).double(), torch.randn(9, 4).double()
    ledger = memory_ledger(layer, x, v)
    rows = ledger.rows(3)
    by_step = ledger.contribution.sum(1)
    largest = by_step.abs().sort(descending=True).values[:3]
    assert_close(torch.tensor([abs(row.contribution) for row in rows]).double(), largest)
    for row in rows:
        assert row.contribution == by_step[row.step].item()
        contributions = ledger.contribution[row.step] * (1 if row.contribution > 0 else -1)
        assert row.unit == int(contributions.argmax())
        assert row.unit_contribution == ledger.contribution[row.step, row.unit].item()
        assert row.written == ledger.written[row.step, row.unit].item()
        assert row.kept == ledger.kept[row.step, row.unit].item()
        assert row.read == ledger.read[-1, row.unit].item()
    assert len(ledger.rows(100)) == 9


def test_a_float32_layer_is_explained_in_float64():
    layer, x, v = RKMCIFG(3, 4, layer_norm=True), torch.randn(20, 3), torch.randn(20, 4)
    ledger = memory_ledger(layer, x, v)
    assert ledger.contribution.dtype == torch.float64
    y = (v.double() * layer.double()(x.double())[0]).sum().item()
    assert ledger.total == pytest.approx(y, rel=1e-10)


@pytest.mark.parametrize(("layer", "weights", "error", "message"), [
    (NgramLSTM(3, 4), torch.zeros(5, 4), KindError, "candidate passes through tanh"),
    (RKM(3, 4, q="gaussian"), torch.zeros(5, 4), KindError, "The output is gaussian of the"),
    (RAN(3, 4, 2), torch.zeros(5, 4), KindError, "several layers: use stack_"),
    (torch.nn.LSTM(3, 4), torch.zeros(5, 4), KindError, "layer is LSTM"),
    (RAN(3, 4), torch.zeros(4), ShapeError, r"weights has shape \(4,\); expected \(5, 4\)"),
    (RAN(3, 4), torch.full((5, 4), torch.nan), ArgumentError, "weights"),
])  # fmt: skip
def test_unsupported_layers_and_weights_are_rejected(layer, weights, error, message):
    with pytest.raises(error, match=message):
        memory_ledger(layer, torch.zeros(5, 3), weights)


def test_a_memory_of_0_has_the_slope_of_tanh_at_0():
    layer, v = random_layer(CNN), torch.ones(3, 4).double()
    ledger = memory_ledger(layer, torch.zeros(3, 3).double(), v)
    assert_close(ledger.input_weights[0], layer.filters()["candidate"][..., 0].sum(0))


def test_without_memory_an_ngram_contributes_the_output_of_its_step():
    for output in ("linear", "tanh"):
        layer = random_layer(CNN, filter_length=3, output_nonlinearity=output)
        x, v = torch.randn(8, 3).double(), torch.randn(8, 4).double()
        assert_close(memory_ledger(layer, x, v).by_ngram, v * layer(x)[0].detach())
