"""Liang et al. (2019), Table 1: the seven cells and their parameters."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rkm2019_by_hand import CLOSE, TABLE1_STEPS, run, sequence

from representer.nn import TABLE1
from representer.ops import use_backend

FACTORS = {  # parameters are (nm + d) * factor * d, without d for a cell without h
    "LSTM": (4, True),
    "RKM-LSTM": (4, True),
    "RKM-CIFG": (3, True),
    "Linear Kernel w/ o_t": (2, True),
    "Linear Kernel": (1, True),
    "Gated CNN": (2, False),
    "CNN": (1, False),
}
COUNTS = {  # Table 2, m = d = 300
    "LSTM": (720_000, 1_440_000),
    "RKM-LSTM": (720_000, 1_440_000),
    "RKM-CIFG": (540_000, 1_080_000),
    "Linear Kernel w/ o_t": (360_000, 720_000),
    "Linear Kernel": (180_000, 360_000),
    "Gated CNN": (180_000, 540_000),
    "CNN": (90_000, 270_000),
}


def matrices(layer) -> int:
    """Parameters of filters and recurrent matrices; Table 1 leaves out biases and norms."""
    named = layer.named_parameters()
    return sum(p.numel() for name, p in named if name.startswith("weight"))


@pytest.mark.parametrize("row", COUNTS)
def test_table_2_counts_these_parameters(row):
    """720K ... 90K for 1-grams and 1.44M ... 270K for 3-grams, at m = d = 300."""
    sizes = [matrices(TABLE1[row](300, 300, filter_length=n)) for n in (1, 3)]
    assert tuple(sizes) == COUNTS[row]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("row", TABLE1_STEPS)
def test_table_1_in_single_precision_is_what_the_layers_compute(row, n):
    """The paths for float32: sequences, padded batches, steps, and gradients of the weights."""
    torch.manual_seed(n)
    layer = TABLE1[row](9, 33, filter_length=n)  # units that do not fill the registers evenly
    double = copy.deepcopy(layer).double()
    x = torch.randn(7, 3, 9)
    expected = torch.stack([run(TABLE1_STEPS[row], double, x[:, b].double())[0] for b in range(3)])
    expected = expected.transpose(0, 1)
    near = {"rtol": 1e-4, "atol": 1e-5, "check_dtype": False}
    torch.testing.assert_close(layer(x)[0], expected, **near)
    short = layer(x, lengths=torch.tensor([7, 2, 5]))[0]
    torch.testing.assert_close(short[:2, 1], expected[:2, 1], **near)
    state, steps = None, []
    with torch.no_grad():
        for x_t in x:
            output, state = layer(x_t[None], state) if n > 1 else layer.step(x_t, state)
            steps.append(output[0] if n > 1 else output)
    torch.testing.assert_close(torch.stack(steps), expected, **near)
    weights = torch.randn(7, 3, 33)
    (layer(x)[0] * weights).sum().backward()
    with use_backend("reference"):
        (double(x.double())[0] * weights).sum().backward()
    for found, wanted in zip(layer.parameters(), double.parameters(), strict=True):
        scale = float(wanted.grad.abs().max())
        torch.testing.assert_close(found.grad / scale, wanted.grad / scale, **near)


@pytest.mark.parametrize("row", FACTORS)
@settings(deadline=None, max_examples=6)
@given(m=st.integers(1, 7), d=st.integers(1, 7), n=st.integers(1, 4))
def test_table_1_gives_the_number_of_parameters(row, m, d, n):
    """(nm + d)(4d) for the LSTM, down to (nm)(d) for the CNN."""
    factor, is_recurrent = FACTORS[row]
    assert matrices(TABLE1[row](m, d, filter_length=n)) == (n * m + is_recurrent * d) * factor * d


@pytest.mark.parametrize("row", TABLE1_STEPS)
@settings(deadline=None, max_examples=10)
@given(
    T=st.integers(1, 8), m=st.integers(1, 4), d=st.integers(1, 4), n=st.integers(1, 3),
    dilation=st.integers(1, 2), forget_bias=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 2**16),
)  # fmt: skip
def test_table_1_is_what_the_layers_compute(row, T, m, d, n, dilation, forget_bias, seed):
    """Cell and output of every row, written out by hand."""
    torch.manual_seed(seed)
    layer = TABLE1[row](
        m, d, filter_length=n, dilation=dilation, forget_bias=forget_bias, dtype=torch.float64
    )
    x = sequence(T, m)
    output, state = layer(x)
    expected, h, c = run(TABLE1_STEPS[row], layer, x)
    torch.testing.assert_close(output, expected, **CLOSE)
    if layer.cell.has_memory:
        torch.testing.assert_close((state.h[0], state.c[0]), (h, c), **CLOSE)
    with use_backend("reference"):
        torch.testing.assert_close(layer(x)[0], expected, **CLOSE)


@pytest.mark.parametrize("row", TABLE1_STEPS)
def test_section_4_3_biases_are_those_of_the_gates_and_of_the_lstm_candidate(row):
    """There are no biases on the cell update of a machine; the LSTM has one there."""
    biased = set(TABLE1[row](2, 3).biases())
    gates = set(TABLE1[row](2, 3).filters())
    assert biased == (gates if row == "LSTM" else gates - {"candidate"})


@pytest.mark.parametrize("row", ["LSTM", "RKM-LSTM", "RKM-CIFG"])
def test_a_forget_bias_is_added_to_the_bias_of_the_forget_gate_alone(row):
    plain, open_ = (TABLE1[row](2, 3, forget_bias=b, dtype=torch.float64) for b in (0.0, 1.5))
    open_.load_state_dict(plain.state_dict())
    for gate, bias in open_.biases().items():
        torch.testing.assert_close(bias, plain.biases()[gate] + 1.5 * (gate == "forget"))


@pytest.mark.parametrize("row", [row for row, (_, is_recurrent) in FACTORS.items() if is_recurrent])
def test_section_6_the_normalized_cell_is_carried_on(row):
    """Layer norm after the computation of c_t: the cell that is emitted is the one kept."""
    layer = TABLE1[row](3, 5, layer_norm=True, dtype=torch.float64)
    norm = layer.cell_norm()
    with torch.no_grad():
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.uniform_(-0.5, 0.5)

    def step(w, x, t, h, c):
        plain = TABLE1_STEPS[row](w, x, t, h, c)[1]
        centered = plain - plain.mean()
        c = norm.weight * centered / (centered.square().mean() + 1e-5).sqrt() + norm.bias
        emitted = torch.tanh(c) if row in ("LSTM", "Linear Kernel") else c
        gate = 1 / (1 + torch.exp(-w.z("output", x, t, h))) if "output" in w.filters else 1.0
        return gate * emitted, c

    x = sequence(6, 3)
    output, state = layer(x)
    expected, _, c = run(step, layer, x)
    torch.testing.assert_close(output, expected, **CLOSE)
    torch.testing.assert_close(state.c[0], c, **CLOSE)
