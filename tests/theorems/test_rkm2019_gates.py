"""Liang et al. (2019), section 3: static gates, dynamic gates, and the cells they lead to."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rkm2019_by_hand import CLOSE, Weights, rkm_lstm, run, sequence, set_weights
from small_oracles import sigma

from representer.functional import gated_scan_definition
from representer.nn import RAN, RKMCIFG, RKMLSTM, LinearKernelRNN, NgramLSTM

OPEN = 40.0  # sigma(40) is 1 in float64
sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 8), "m": st.integers(1, 4), "d": st.integers(1, 4),
        "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
static = st.tuples(st.floats(0, 1), st.floats(0, 1))
theorem = settings(deadline=None, max_examples=13)


def linear(size, gates, feedback):
    torch.manual_seed(size["seed"])
    return LinearKernelRNN(
        size["m"], size["d"], output_gate=False, static_gates=gates, feedback=feedback,
        output_nonlinearity="identity", dtype=torch.float64,
    )  # fmt: skip


@theorem
@given(size=sizes, gates=static, feedback=st.booleans())
def test_9_the_linear_kernel_with_static_gates(size, gates, feedback):
    """h'_t = c_t = s_i^2 (X~ x_t + H~ h'_{t-1}) + s_f^2 c_{t-1}."""
    layer = linear(size, gates, feedback)
    x = sequence(size["T"], size["m"])

    def step(w, x, t, h, c):
        c = gates[0] * w.z("candidate", x, t, h) + gates[1] * c
        return c, c

    torch.testing.assert_close(layer(x)[0], run(step, layer, x)[0], **CLOSE)


@theorem
@given(size=sizes, gates=static)
def test_9_a_contribution_decays_by_a_constant_factor_a_step(size, gates):
    """The input of step t - N weighs s_i^2 s_f^{2N} in c_t, whatever the sequence."""
    layer = linear(size, gates, feedback=False)
    x = sequence(size["T"], size["m"])
    changed, delta = x.clone(), torch.randn(size["m"], dtype=torch.float64)
    changed[0] += delta
    effect = layer(changed)[0] - layer(x)[0]
    written = layer.filters()["candidate"][:, :, 0] @ delta
    for N, of_step in enumerate(effect):
        torch.testing.assert_close(of_step, gates[0] * gates[1] ** N * written, **CLOSE)


@theorem
@given(size=sizes, gates=static)
def test_9_with_feedback_the_memory_decays_by_a_matrix(size, gates):
    """s_f^2 < 1 is stability only without feedback: with it, h_T is (s_f^2 + s_i^2 H~)^N X~ x."""
    layer = linear(size, gates, feedback=True)
    x = torch.zeros(size["T"], size["m"], dtype=torch.float64)
    x[0] = torch.randn(size["m"])
    keep = gates[1] * torch.eye(size["d"]).double() + gates[0] * layer.recurrent()["candidate"]
    first = gates[0] * layer.filters()["candidate"][:, :, 0] @ x[0]
    expected = torch.linalg.matrix_power(keep, size["T"] - 1) @ first
    torch.testing.assert_close(layer(x)[0][-1], expected, **CLOSE)


def test_9_a_forget_gate_below_one_keeps_the_memory_bounded():
    """|c_t| <= s_i^2 max|c~| / (1 - s_f^2)."""
    layer = LinearKernelRNN(
        1, 1, output_gate=False, static_gates=(0.7, 0.9), feedback=False,
        output_nonlinearity="identity", dtype=torch.float64,
    )  # fmt: skip
    output, _ = layer(torch.ones(2000, 1, dtype=torch.float64))
    limit = 0.7 * layer.filters()["candidate"].item() / (1 - 0.9)
    assert output.abs().max() <= abs(limit) * (1 + 1e-12)
    assert output[-1].item() == pytest.approx(limit)


@pytest.mark.parametrize("output_gate", [False, True])
def test_footnote_4_learned_static_gates_start_at_the_given_ones_and_are_trained(output_gate):
    """s_i^2 and s_f^2 can also be learned."""
    fixed, learned = (
        LinearKernelRNN(
            3, 4, output_gate=output_gate, static_gates=(0.7, 0.2), learn_static_gates=learn,
            dtype=torch.float64,
        )
        for learn in (False, True)
    )  # fmt: skip
    learned.load_state_dict(fixed.state_dict(), strict=False)
    x = sequence(6, 3)
    output, _ = learned(x)
    torch.testing.assert_close(output, fixed(x)[0], **CLOSE)
    output.sum().backward()
    assert learned.static_gates_l0.input_logit.grad.item() != 0
    assert learned.static_gates_l0.forget_logit.grad.all()


@theorem
@given(size=sizes)
def test_10_and_11_the_rkm_lstm(size):
    """c_t = eta c~ + f c_{t-1}, h' = o c_t, gates of z'_t = [x_t, h'_{t-1}]."""
    torch.manual_seed(size["seed"])
    layer = RKMLSTM(size["m"], size["d"], dtype=torch.float64)
    x = sequence(size["T"], size["m"])
    torch.testing.assert_close(layer(x)[0], run(rkm_lstm, layer, x)[0], **CLOSE)


@theorem
@given(size=sizes, gates=st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95)))
def test_10_constant_gates_are_the_linear_kernel_with_an_output_gate(size, gates):
    """eta_t = s_i^2 and f_t = s_f^2 (section 6, Linear Kernel w/ o_t)."""
    torch.manual_seed(size["seed"])
    simple = LinearKernelRNN(
        size["m"], size["d"], output_gate=True, static_gates=gates, dtype=torch.float64
    )
    w = Weights.of(simple)
    full = RKMLSTM(size["m"], size["d"], dtype=torch.float64)
    no_filter, no_weight = torch.zeros_like(w.filters["output"]), torch.zeros(size["d"], size["d"])
    logits = [torch.full((size["d"],), s, dtype=torch.float64).logit() for s in gates]
    set_weights(
        full,
        {**w.filters, "input": no_filter, "forget": no_filter},
        {**w.recurrent, "input": no_weight, "forget": no_weight},
        {**w.biases, "input": logits[0], "forget": logits[1]},
    )
    x = sequence(size["T"], size["m"])
    torch.testing.assert_close(full(x)[0], simple(x)[0], **CLOSE)


@theorem
@given(size=sizes)
def test_section_3_2_tanh_on_the_output_is_an_lstm_without_tanh_on_the_candidate(size):
    """h'_t = o_t tanh(c_t), the rest as in (10) and (11)."""
    torch.manual_seed(size["seed"])
    layer = RKMLSTM(size["m"], size["d"], output_nonlinearity="tanh", dtype=torch.float64)
    x = sequence(size["T"], size["m"])

    def step(w, x, t, h, c):
        _, c = rkm_lstm(w, x, t, h, c)
        return sigma(w.z("output", x, t, h)) * torch.tanh(c), c

    torch.testing.assert_close(layer(x)[0], run(step, layer, x)[0], **CLOSE)


@theorem
@given(size=sizes)
def test_section_3_2_the_ran_is_an_rkm_lstm_with_open_output_and_no_feedback_in_the_candidate(size):
    """o_t = 1 and c~_t = W_c x_t."""
    torch.manual_seed(size["seed"])
    ran = RAN(size["m"], size["d"], dtype=torch.float64)
    w = Weights.of(ran)
    full = RKMLSTM(size["m"], size["d"], dtype=torch.float64)
    no_weight = torch.zeros(size["d"], size["d"])
    set_weights(
        full,
        {**w.filters, "output": torch.zeros_like(w.filters["candidate"])},
        {**w.recurrent, "candidate": no_weight, "output": no_weight},
        {**w.biases, "output": torch.full((size["d"],), OPEN)},
    )
    x = sequence(size["T"], size["m"])
    assert set(w.recurrent) == {"input", "forget"}
    torch.testing.assert_close(ran(x)[0], full(x)[0], **CLOSE)


@theorem
@given(size=sizes, forget_bias=st.floats(-2, 2))
def test_section_3_2_the_cifg_is_an_rkm_lstm_with_coupled_gates(size, forget_bias):
    """eta_t = 1 - f_t: the input gate has the forget gate's weights with the other sign."""
    torch.manual_seed(size["seed"])
    cifg = RKMCIFG(size["m"], size["d"], forget_bias=forget_bias, dtype=torch.float64)
    w = Weights.of(cifg)
    full = RKMLSTM(size["m"], size["d"], dtype=torch.float64)
    set_weights(
        full,
        {**w.filters, "input": -w.filters["forget"]},
        {**w.recurrent, "input": -w.recurrent["forget"]},
        {**w.biases, "input": -w.biases["forget"]},
    )
    x = sequence(size["T"], size["m"])
    torch.testing.assert_close(cifg(x)[0], full(x)[0], **CLOSE)


@theorem
@given(size=sizes)
def test_section_3_2_given_its_gates_the_ran_is_a_weighted_sum_of_its_inputs(size):
    """c_t = sum_s (f_{s+1} ... f_t) eta_s W_c x_s."""
    torch.manual_seed(size["seed"])
    layer = RAN(size["m"], size["d"], dtype=torch.float64)
    x, w = sequence(size["T"], size["m"]), Weights.of(layer)
    output, _ = layer(x)
    before = torch.cat((torch.zeros_like(output[:1]), output[:-1]))
    steps = range(len(x))
    f = torch.stack([sigma(w.z("forget", x, t, before[t])) for t in steps])
    u = [sigma(w.z("input", x, t, before[t])) * w.z("candidate", x, t, before[t]) for t in steps]
    summed = gated_scan_definition(
        torch.stack(u)[:, None], f[:, None], torch.zeros_like(u[0])[None]
    )
    torch.testing.assert_close(output, summed[:, 0], **CLOSE)


@theorem
@given(size=sizes)
def test_section_3_2_the_unigram_lstm_is_that_of_torch(size):
    """The LSTM of Table 1 at n = 1 is torch.nn.LSTM with the same weights."""
    torch.manual_seed(size["seed"])
    ours = NgramLSTM(size["m"], size["d"], dtype=torch.float64)
    theirs = torch.nn.LSTM(size["m"], size["d"], dtype=torch.float64)
    w, order = Weights.of(ours), ("input", "forget", "candidate", "output")
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(torch.cat([w.filters[gate][:, :, 0] for gate in order]))
        theirs.weight_hh_l0.copy_(torch.cat([w.recurrent[gate] for gate in order]))
        theirs.bias_ih_l0.copy_(torch.cat([w.biases[gate] for gate in order]))
        theirs.bias_hh_l0.zero_()
    x = torch.randn(size["T"], 2, size["m"], dtype=torch.float64)
    output, state = ours(x)
    expected, (h, c) = theirs(x)
    torch.testing.assert_close((output, state.h, state.c), (expected, h, c), **CLOSE)
