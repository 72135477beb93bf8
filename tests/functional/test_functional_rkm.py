"""Recurrent cells, their scans and the definition of their kernel."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from representer.errors import ArgumentError
from representer.functional import (
    NONLINEARITIES,
    Cell,
    gated_scan,
    gated_scan_definition,
    gaussian_kernel_definition,
    ngram_product,
    ngram_product_definition,
    recurrent_kernel_definition,
    rkm,
    rkm_scan,
    wavelet_factors,
    wavelet_filters,
    wavelet_filters_definition,
    wavelet_times,
)

NAMED = {name: value for name, value in vars(rkm).items() if isinstance(value, Cell)}
names = st.sampled_from(list(NONLINEARITIES))
cells = st.builds(
    Cell, st.sampled_from(["dynamic", "coupled", "static"]),
    st.sampled_from(["dynamic", "static", "none"]), st.booleans(), names, names,
    st.sampled_from(["all", "gates", "none"]), st.sampled_from(["cell", "output", "expm1"]),
    st.booleans(),
)  # fmt: skip


@given(cell=cells)
def test_parsing_the_code_of_a_cell_returns_the_cell(cell):
    assert Cell.parse(cell.code) == cell


@given(a=cells, b=cells)
def test_two_cells_have_the_same_code_only_if_they_are_equal(a, b):
    assert (a.code == b.code) == (a == b)


@given(cell=cells)
def test_recurrent_and_biased_gates_are_the_last_ones(cell):
    assert cell.gates[len(cell.gates) - len(cell.recurrent_gates) :] == cell.recurrent_gates
    assert cell.gates[len(cell.gates) - len(cell.biased_gates) :] == cell.biased_gates
    assert cell.gates[0] == "candidate"
    assert ("candidate" in cell.recurrent_gates) == (cell.feedback == "all")
    assert ("candidate" in cell.biased_gates) == cell.candidate_bias


@pytest.mark.parametrize(
    ("option", "value"),
    [("input_gate", "none"), ("forget_gate", "off"), ("candidate", "swish"), ("output", "exp"),
     ("feedback", "some"), ("memory", "long")],
)  # fmt: skip
def test_an_unknown_option_is_refused_with_the_known_ones(option: str, value: str):
    with pytest.raises(ArgumentError, match=f"{option} is '{value}'; expected one of "):
        replace(rkm.LSTM, **{option: value})


T, B, H = 4, 2, 3
CELLS = {name: value for name, value in vars(rkm).items() if isinstance(value, Cell)}
CELLS["RKM"] = Cell("static", "static", False, output="exponential", memory="output")
CELLS["Gaussian"] = Cell("static", "static", False, output="gaussian", memory="expm1")
EVERY_CELL = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())


def arguments(cell, time=T, dtype=torch.float64):
    """Return small operands, so that numerical gradients are accurate for every cell."""
    seen = len(cell.recurrent_gates)
    z = 0.5 * torch.randn(time, B, len(cell.gates), H, dtype=dtype)
    weight = 0.5 * torch.randn(seen, H, H, dtype=dtype) if seen else None
    h0, c0 = 0.5 * torch.randn(2, B, H, dtype=dtype)
    return z, weight, h0, c0, torch.rand(2, H, dtype=dtype)


def by_hand(cell, z, weight, h, c, static):
    """Evaluate the recurrence with every option of the cell, one unit and sequence at a time."""
    functions = {
        "identity": lambda a: a, "tanh": math.tanh, "exponential": lambda a: (math.exp(a) - 1) / 2,
        "gaussian": math.exp,
    }  # fmt: skip
    h, c, outputs = h.tolist(), c.tolist(), []
    for t in range(len(z)):
        a = z[t].clone()  # (B, G, H)
        for r, name in enumerate(cell.recurrent_gates):
            for b, j, i in itertools.product(range(B), range(H), range(H)):
                a[b, cell.gates.index(name), j] += weight[r, j, i] * h[b][i]
        for b, j in itertools.product(range(B), range(H)):
            gate = {name: 1 / (1 + math.exp(-a[b, g, j])) for g, name in enumerate(cell.gates)}
            candidate = functions[cell.candidate](a[b, 0, j].item())
            memory_term = math.exp(c[b][j]) - 1
            memory = {"cell": c[b][j], "output": h[b][j], "expm1": memory_term}[cell.memory]
            f = {"dynamic": gate.get("forget"), "static": static[1, j].item(), "none": 0.0}
            f = f[cell.forget_gate]
            i = {"dynamic": gate.get("input"), "coupled": 1 - f, "static": static[0, j].item()}
            c[b][j] = i[cell.input_gate] * candidate + f * memory
            h[b][j] = functions[cell.output](c[b][j]) * (gate["output"] if cell.output_gate else 1)
        outputs.append(torch.tensor(h, dtype=z.dtype))
    return torch.stack(outputs), outputs[-1], torch.tensor(c, dtype=z.dtype)


@EVERY_CELL
def test_every_cell_matches_its_equations(cell):
    z, weight, h0, c0, static = arguments(cell)
    expected = by_hand(cell, z, weight, h0, c0, static)
    torch.testing.assert_close(rkm_scan(z, weight, h0, c0, cell=cell, static=static), expected)


def test_the_normalized_cell_is_output_and_memory():
    z, weight, h0, c0, _ = arguments(CELLS["RAN"], time=1)
    gain, shift = norm = torch.rand(2, H, dtype=torch.float64)
    _, _, plain = rkm_scan(z, weight, h0, c0, cell=CELLS["RAN"])
    centered = plain - plain.mean(1, keepdim=True)
    variance = centered.square().mean(1, keepdim=True)
    expected = gain * centered / (variance + 1e-5).sqrt() + shift
    output, h, c = rkm_scan(z, weight, h0, c0, cell=CELLS["RAN"], norm=norm)
    torch.testing.assert_close((output[0], h, c), (expected, expected, expected))


@EVERY_CELL
@looped("reverse", [False, True])
def test_beyond_its_length_a_sequence_has_zero_outputs_and_keeps_its_state(cell, reverse):
    z, weight, h0, c0, static = arguments(cell)
    options = {"cell": cell, "static": static, "reverse": reverse}
    output, h, c = rkm_scan(z, weight, h0, c0, lengths=torch.tensor([T, 2]), **options)
    short, h_short, c_short = rkm_scan(z[:2, 1:], weight, h0[1:], c0[1:], **options)
    torch.testing.assert_close((output[:2, 1:], h[1:], c[1:]), (short, h_short, c_short))
    assert not output[2:, 1].any()


@EVERY_CELL
def test_held_units_keep_cell_and_output(cell):
    """With hold = 1 the state does not change; hold = 0 has no effect."""
    z, weight, h0, c0, static = arguments(cell)
    hold = torch.zeros(2, T, B, H, dtype=torch.float64)
    free = rkm_scan(z, weight, h0, c0, cell=cell, static=static)
    torch.testing.assert_close(
        rkm_scan(z, weight, h0, c0, cell=cell, static=static, hold=hold), free
    )
    hold[:, -1] = 1
    output, h, c = rkm_scan(z, weight, h0, c0, cell=cell, static=static, hold=hold)
    torch.testing.assert_close(output[-1], output[-2])
    before = rkm_scan(z[:-1], weight, h0, c0, cell=cell, static=static)
    torch.testing.assert_close((h, c), before[1:])


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_a_callable_output_function_matches_the_named_one(name):
    spec = replace(CELLS["RKM_LSTM"], output=name)
    z, weight, h0, c0, _ = arguments(spec)
    psi = NONLINEARITIES[name].value
    torch.testing.assert_close(
        rkm_scan(z, weight, h0, c0, cell=CELLS["RKM_LSTM"], psi=psi),
        rkm_scan(z, weight, h0, c0, cell=spec),
    )


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_the_definition_nests_q_as_printed(name):
    """The newest similarity is in the outermost q, the oldest in the innermost."""
    q, s = NONLINEARITIES[name].value, 0.3 * torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(
        recurrent_kernel_definition(s, q), q(s[3] + q(s[2] + q(s[1] + q(s[0]))))
    )
    torch.testing.assert_close(recurrent_kernel_definition(s[:1], q), q(s[0]))


def test_the_kernel_of_an_empty_sequence_is_0_even_if_q_of_0_is_not():
    k = recurrent_kernel_definition(torch.empty(0, 2, 3), NONLINEARITIES["polynomial"].value)
    assert torch.equal(k, torch.zeros(2, 3))


def test_steps_counts_from_the_oldest():
    q, s = NONLINEARITIES["exponential"].value, torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close(
        recurrent_kernel_definition(s, q, 2), recurrent_kernel_definition(s[:2], q)
    )


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_gaussian_form_of_equal_sequences_is_1(steps):
    assert torch.equal(gaussian_kernel_definition(torch.zeros(steps, 2)), torch.ones(2))


# Filters over steps: n-grams and wavelets.


sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 9), "n": st.integers(1, 4), "dilation": st.integers(1, 3),
        "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
claim = settings(deadline=None, max_examples=20)


def draw(size):
    torch.manual_seed(size["seed"])
    x = torch.randn(size["T"], 2, 3, dtype=torch.float64)
    filters = torch.randn(4, 3, size["n"], dtype=torch.float64)
    reach = (size["n"] - 1) * size["dilation"]
    return x, filters, size["dilation"], torch.zeros(reach, 2, 3, dtype=torch.float64)


@claim
@given(size=sizes)
def test_the_product_matches_the_definition(size):
    x, filters, d, zeros = draw(size)
    product = ngram_product(torch.cat((zeros, x)), filters, d)
    torch.testing.assert_close(product, ngram_product_definition(x, filters, d))


@claim
@given(size=sizes)
def test_the_definition_is_a_causal_convolution(size):
    x, filters, d, zeros = draw(size)
    padded = torch.cat((zeros, x)).permute(1, 2, 0)
    expected = F.conv1d(padded, filters.flip(2), dilation=d).permute(2, 0, 1)
    torch.testing.assert_close(ngram_product_definition(x, filters, d), expected)


def test_steps_before_the_sequence_are_included():
    x, filters = torch.randn(6, 1, 2, dtype=torch.float64), torch.randn(3, 2, 3).double()
    whole = ngram_product_definition(x, filters)
    torch.testing.assert_close(ngram_product(x[2:], filters), whole[4:])


# Wavelet filters, L19 (21).


def test_the_times_of_40_samples_range_from_minus_20_to_19():
    times = wavelet_times(40, like=torch.zeros(1))
    assert times.flip(0).tolist() == list(range(-20, 20))  # oldest first
    assert wavelet_times(5, like=times).tolist() == [2, 1, 0, -1, -2]
    assert wavelet_times(1, like=times).tolist() == [0]


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_coefficients_and_factors_match_equation_21(units: int, channels: int, n: int):
    amplitude, phase = torch.randn(2, units, channels, dtype=torch.float64)
    frequency, decay = torch.rand(2, units, dtype=torch.float64)
    filters = wavelet_filters(amplitude, frequency, phase, decay, n)
    assert filters.shape == (units, channels, n)
    expected = wavelet_filters_definition(amplitude, frequency, phase, decay, n)
    torch.testing.assert_close(filters, expected, rtol=1e-12, atol=1e-12)
    mix, taps = wavelet_factors(amplitude, frequency, phase, decay, n)
    product = torch.einsum("roi,ron->oin", mix, taps)
    torch.testing.assert_close(product, expected, rtol=1e-12, atol=1e-12)


def draw_gated(T, B, H, decay="full", dtype=torch.float64):
    shape = {"scalar": (), "vector": (H,), "full": (T, B, H)}[decay]
    u, f = torch.randn(T, B, H, dtype=dtype), torch.rand(shape, dtype=dtype)
    return u, f, torch.randn(B, H, dtype=dtype)


@settings(deadline=None, max_examples=20)
@given(
    T=st.integers(1, 9), B=st.integers(0, 3), H=st.integers(1, 3),
    decay=st.sampled_from(["scalar", "vector", "full"]), seed=st.integers(0, 2**16),
)  # fmt: skip
def test_the_recurrence_matches_the_definition(T, B, H, decay, seed):
    torch.manual_seed(seed)
    u, f, c0 = draw_gated(T, B, H, decay)
    states, final = gated_scan(u, f, c0)
    torch.testing.assert_close(states, gated_scan_definition(u, f, c0))
    assert torch.equal(final, states[-1])


@pytest.mark.parametrize("reverse", [False, True])
def test_beyond_its_length_a_gated_sequence_has_zero_outputs_and_keeps_its_state(reverse):
    u, f, c0 = draw_gated(5, 4, 2)
    lengths = torch.tensor([5, 2, 1, 0])
    states, final = gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
    for b, length in enumerate(lengths):
        if length:
            own = (u[:length, b : b + 1], f[:length, b : b + 1], c0[b : b + 1])
            expected, last = gated_scan(*own, reverse=reverse)
            torch.testing.assert_close((states[:length, b], final[b]), (expected[:, 0], last[0]))
        else:
            assert torch.equal(final[b], c0[b])
        assert not states[length:, b].any()


def test_reverse_scans_the_reversed_sequence():
    u, f, c0 = draw_gated(5, 2, 3)
    states, final = gated_scan(u, f, c0, reverse=True)
    flipped, last = gated_scan(u.flip(0), f.flip(0), c0)
    torch.testing.assert_close((states.flip(0), final), (flipped, last))
