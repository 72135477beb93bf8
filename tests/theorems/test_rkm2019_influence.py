"""Liang et al. (2019), (20): the output is a function of the whole past, and of which parts."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rkm2019_by_hand import CLOSE, Weights, sequence
from small_oracles import sigma

from representer.explain import influence
from representer.nn import RAN, RKM, RKMCIFG, RKMLSTM, TABLE1, GatedCNN, LinearKernelRNN

LINEAR_GIVEN_GATES = {
    "RKM-LSTM": RKMLSTM, "RKM-CIFG": RKMCIFG, "RAN": RAN, "Gated CNN": GatedCNN,
    "Linear Kernel w/ o_t": partial(LinearKernelRNN, output_gate=True),
    "Linear Kernel": partial(LinearKernelRNN, output_gate=False, output_nonlinearity="identity"),
    "linear RKM": partial(RKM, q="linear"),
}  # fmt: skip
WITH_MEMORY = [row for row in TABLE1 if "CNN" not in row]


@pytest.mark.parametrize("row", WITH_MEMORY)
def test_20_the_output_depends_on_all_of_the_past(row):
    """h_t(x_t, x_{t-1}, ...): every step has a gradient, at unigram filters already."""
    layer = TABLE1[row](3, 4, dtype=torch.float64)
    x = sequence(10, 3).requires_grad_()
    layer(x)[0][-1].sum().backward()
    assert (x.grad != 0).all()


@pytest.mark.parametrize(("row", "n"), [("CNN", 1), ("CNN", 3), ("Gated CNN", 3)])
def test_20_without_memory_it_depends_on_one_window(row, n):
    """Section 5: filters of length n > 1 leverage n steps, and no more."""
    layer = TABLE1[row](3, 4, filter_length=n, dilation=2, dtype=torch.float64)
    x = sequence(10, 3).requires_grad_()
    layer(x)[0][-1].sum().backward()
    seen = [9 - 2 * s for s in range(n)]
    assert x.grad.any(dim=1).nonzero().flatten().tolist() == sorted(seen)


@pytest.mark.parametrize("row", LINEAR_GIVEN_GATES)
@settings(deadline=None, max_examples=8)
@given(
    T=st.integers(1, 8), n=st.integers(1, 3), dilation=st.integers(1, 2), seed=st.integers(0, 2**16)
)
def test_20_the_shares_of_the_steps_sum_to_the_output(row, T, n, dilation, seed):
    """Exact given the gates, feedback included."""
    torch.manual_seed(seed)
    layer = LINEAR_GIVEN_GATES[row](3, 4, filter_length=n, dilation=dilation, dtype=torch.float64)
    x = sequence(T, 3)
    shares = influence(layer, x)
    assert shares.shape == (T, 4)
    torch.testing.assert_close(shares.sum(0), layer(x)[0][-1], **CLOSE)


@pytest.mark.parametrize("feedback", [True, False])
def test_20_under_static_gates_a_share_is_the_change_that_the_step_makes(feedback):
    """Without dynamic gates nothing else depends on a step: leave it out and see."""
    layer = LinearKernelRNN(
        3, 4, output_gate=False, feedback=feedback, output_nonlinearity="identity",
        static_gates=(0.8, 0.6), filter_length=2, dtype=torch.float64,
    )  # fmt: skip
    x = sequence(7, 3)
    shares = influence(layer, x)
    for s in range(len(x)):
        without = x.clone()
        without[s] = 0
        torch.testing.assert_close(shares[s], (layer(x)[0] - layer(without)[0])[-1], **CLOSE)


def test_20_the_share_of_a_step_in_a_gated_memory_is_a_product_of_its_gates():
    """o_T f_T ... f_{s+1} eta_s (W_c x_s), for the RAN with an output gate: no feedback."""
    layer = RKMLSTM(3, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0[: layer.hidden_size] = 0  # of the candidate
    x, w = sequence(6, 3), Weights.of(layer)
    output, _ = layer(x)
    before = torch.cat((torch.zeros_like(output[:1]), output[:-1]))
    eta, f, o, u = (
        [w.z(gate, x, t, before[t]) for t in range(len(x))]
        for gate in ("input", "forget", "output", "candidate")
    )
    for s, share in enumerate(influence(layer, x)):
        kept = torch.ones(4, dtype=torch.float64)
        for t in range(s + 1, len(x)):
            kept = kept * sigma(f[t])
        torch.testing.assert_close(share, sigma(o[-1]) * kept * sigma(eta[s]) * u[s], **CLOSE)
