"""Liang et al. (2019), section 4: n-gram filters, the convolutional cells, the generalized LSTM."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from rkm2019_by_hand import CLOSE, Weights, product, rkm_lstm, run, sequence, small
from small_oracles import sigma

from representer.functional import NONLINEARITIES, gated_scan_definition
from representer.kernels import RecurrentKernel
from representer.nn import CNN, RKM, RKMLSTM, TABLE1, GatedCNN, LinearKernelRNN

MERCER = [name for name, q in NONLINEARITIES.items() if q.mercer]
sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 9), "m": st.integers(1, 4), "j": st.integers(1, 4),
        "n": st.integers(1, 3), "dilation": st.integers(1, 3), "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
theorem = settings(deadline=None, max_examples=13)


def build(layer_class, size, **options):
    torch.manual_seed(size["seed"])
    return layer_class(
        size["m"], size["j"], filter_length=size["n"], dilation=size["dilation"],
        dtype=torch.float64, **options,
    )  # fmt: skip


def convolution(x, filters, dilation):
    """Causal conv1d ``(T, j)``: torch slides the kernel, so its last slot meets x_t."""
    n = filters.shape[2]
    padded = F.pad(x.T[None], ((n - 1) * dilation, 0))
    return F.conv1d(padded, filters.flip(2), dilation=dilation)[0].T


@theorem
@given(size=sizes)
def test_12_and_13_an_ngram_is_a_wider_input_against_a_wider_reference(size):
    """h_t = f(W_0 x_t + ... + W_{-n+1} x_{t-n+1} + W_h h_{t-1}): all n blocks side by side."""
    layer = build(RKM, size, q="polynomial")
    x, n, d = small(size["T"], size["m"], size["n"]), size["n"], size["dilation"]
    padded = torch.cat((torch.zeros((n - 1) * d, size["m"]).double(), x))
    blocks = [padded[(n - 1 - s) * d :][: len(x)] for s in range(n)]  # x_{t - s d} for every t
    wide = RKM(n * size["m"], size["j"], q="polynomial", dtype=torch.float64)
    with torch.no_grad():
        wide.weight_ih_l0.copy_(torch.cat(layer.filters()["candidate"].unbind(2), dim=1))
        wide.weight_hh_l0.copy_(layer.weight_hh_l0)
    torch.testing.assert_close(layer(x)[0], wide(torch.cat(blocks, dim=1))[0], **CLOSE)


@pytest.mark.parametrize("q", MERCER)
@theorem
@given(size=sizes)
def test_14_every_unit_is_the_kernel_with_its_ngram(q, size):
    """c_t = X~ . X_t + q(c_{t-1}) is the kernel of the network and gives the network back."""
    torch.manual_seed(size["seed"])
    kernel = RecurrentKernel(q, filter_length=size["n"], dilation=size["dilation"])
    network = kernel.network(size["m"], size["j"], dtype=torch.float64)
    x = small(size["T"], size["m"], size["n"])
    references = network.references()
    assert references.shape == (size["j"], size["n"], size["m"])
    gram = network.kernel([x[: t + 1] for t in range(len(x))], list(references))
    torch.testing.assert_close(network(x)[0], gram, **CLOSE)


@theorem
@given(size=sizes)
def test_14_the_product_is_written_out(size):
    """X~ . X_t = X~_0 x_t + ... + X~_{-n+1} x_{t-n+1}; by hand, with q(z) = (e^z - 1)/2."""
    layer = build(RKM, size, q="exponential", feedback=False)
    x, filters = small(size["T"], size["m"], size["n"]), layer.filters()["candidate"]
    memory, outputs = torch.zeros(size["j"], dtype=torch.float64), []
    for t in range(len(x)):
        c = product(filters, x, t, size["dilation"]) + memory
        memory = (torch.exp(c) - 1) / 2
        outputs.append(memory)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), **CLOSE)


@theorem
@given(size=sizes)
def test_14_the_start_is_padded_with_zeros(size):
    """Zeros written before the sequence change nothing where nothing else remembers."""
    layer = build(CNN, size)
    x, extra = sequence(size["T"], size["m"]), (size["n"] - 1) * size["dilation"]
    longer = torch.cat((torch.zeros(extra, size["m"]).double(), x))
    torch.testing.assert_close(layer(longer)[0][extra:], layer(x)[0], **CLOSE)


@theorem
@given(size=sizes, gates=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_15_the_linear_ngram_kernel(size, gates):
    """h'_t = c_t = s_i^2 (X~ . X_t) + s_f^2 h'_{t-1}, as a recurrence and as a sum."""
    options = {"output_gate": False, "feedback": False, "output_nonlinearity": "identity"}
    layer = build(LinearKernelRNN, size, static_gates=gates, **options)
    x, filters = sequence(size["T"], size["m"]), layer.filters()["candidate"]
    h, outputs, products = torch.zeros(size["j"], dtype=torch.float64), [], []
    for t in range(len(x)):
        products.append(product(filters, x, t, size["dilation"]))
        h = gates[0] * products[-1] + gates[1] * h
        outputs.append(h)
    output, _ = layer(x)
    torch.testing.assert_close(output, torch.stack(outputs), **CLOSE)
    u, f = gates[0] * torch.stack(products)[:, None], torch.tensor(gates[1], dtype=torch.float64)
    summed = gated_scan_definition(u, f, torch.zeros_like(u[0]))
    torch.testing.assert_close(output, summed[:, 0], **CLOSE)


@theorem
@given(size=sizes)
def test_section_4_2_without_memory_it_is_a_convolutional_network(size):
    """s_f^2 = 0 and s_i^2 = 1: tanh of a convolution, dilated if the spacing exceeds 1."""
    layer = build(CNN, size)
    x = sequence(size["T"], size["m"])
    expected = torch.tanh(convolution(x, layer.filters()["candidate"], size["dilation"]))
    torch.testing.assert_close(layer(x)[0], expected, **CLOSE)


@theorem
@given(size=sizes)
def test_section_4_2_the_linear_kernel_with_closed_memory_is_the_cnn_before_its_tanh(size):
    """(15) for s_f^2 = 0 and s_i^2 = 1."""
    options = {"output_gate": False, "feedback": False, "output_nonlinearity": "identity"}
    layer = build(LinearKernelRNN, size, static_gates=(1.0, 0.0), **options)
    x = sequence(size["T"], size["m"])
    expected = convolution(x, layer.filters()["candidate"], size["dilation"])
    torch.testing.assert_close(layer(x)[0], expected, **CLOSE)


@theorem
@given(size=sizes)
def test_16_the_gated_cnn(size):
    """h'_t = eta_t (X~ . X_t) with eta_t = sigma(X~_eta . X_t + b_eta)."""
    layer = build(GatedCNN, size)
    x, filters = sequence(size["T"], size["m"]), layer.filters()
    gate = convolution(x, filters["output"], size["dilation"]) + layer.biases()["output"]
    expected = sigma(gate) * convolution(x, filters["candidate"], size["dilation"])
    torch.testing.assert_close(layer(x)[0], expected, **CLOSE)


@theorem
@given(size=sizes)
def test_17_feedback_with_ngram_filters(size):
    """c_t = X~ . X_t + H~ h'_{t-1} + q(c_{t-1})."""
    layer = build(RKM, size, q="tanh")
    weights, x = Weights.of(layer), sequence(size["T"], size["m"])
    h, outputs = torch.zeros(size["j"], dtype=torch.float64), []
    for t in range(len(x)):
        h = torch.tanh(weights.z("candidate", x, t, h) + h)
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), **CLOSE)


@theorem
@given(size=sizes)
def test_18_and_19_the_ngram_rkm_lstm(size):
    """Every gate has its own n-gram filters and sees h'_{t-1}."""
    layer = build(RKMLSTM, size)
    x = sequence(size["T"], size["m"])
    torch.testing.assert_close(layer(x)[0], run(rkm_lstm, layer, x)[0], **CLOSE)


@theorem
@given(T=st.integers(1, 9), dilation=st.integers(1, 2), seed=st.integers(0, 2**16))
def test_18_and_19_units_may_have_filters_of_different_lengths(T, dilation, seed):
    """n_i varies with the element of the memory cell: {1: 2, 3: 4} is 2 unigrams, 4 trigrams."""
    torch.manual_seed(seed)
    layer = RKMLSTM(3, 6, filter_length={1: 2, 3: 4}, dilation=dilation, dtype=torch.float64)
    for filters in layer.filters().values():
        assert filters.shape == (6, 3, 3)
        assert not filters[:2, :, 1:].any()
        assert filters[2:].all()
    x = sequence(T, 3)
    torch.testing.assert_close(layer(x)[0], run(rkm_lstm, layer, x)[0], **CLOSE)


@pytest.mark.parametrize("row", TABLE1)
def test_section_4_1_a_mixed_layer_without_feedback_is_its_parts_side_by_side(row):
    """Components of different lengths meet only in the feedback."""
    mixed = TABLE1[row](3, 5, filter_length={1: 2, 3: 3}, dtype=torch.float64)
    parts = {
        n: TABLE1[row](3, u, filter_length=n, dtype=torch.float64) for n, u in ((1, 2), (3, 3))
    }
    start = 0
    with torch.no_grad():
        for n, part in parts.items():
            units = slice(start, start + part.hidden_size)
            part.weight_ih_l0.copy_(mixed.get_parameter(f"weight_ih_n{n}_l0"))
            for layer in (mixed, part):
                if layer.weight_hh_l0 is not None:
                    layer.weight_hh_l0.zero_()
            if part.bias_l0 is not None:
                gates = mixed.bias_l0.unflatten(0, (-1, 5))
                part.bias_l0.copy_(gates[:, units].flatten())
            start += part.hidden_size
            assert part.filters()["candidate"].shape[2] == n
    x = sequence(7, 3)
    expected = torch.cat([part(x)[0] for part in parts.values()], dim=1)
    torch.testing.assert_close(mixed(x)[0], expected, **CLOSE)
