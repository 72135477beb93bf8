"""Liang et al. (2019), section 2: the recurrent kernel and the machine that evaluates it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rkm2019_by_hand import CLOSE, Weights, sequence, set_weights, small

from representer.functional import (
    NONLINEARITIES,
    gaussian_kernel_definition,
    recurrent_kernel_definition,
)
from representer.kernels import RecurrentKernel, StringKernel
from representer.nn import RKM

MERCER = [name for name, q in NONLINEARITIES.items() if q.mercer and name != "gaussian"]
ALL_Q = [name for name in NONLINEARITIES if name != "gaussian"]
FORMULAS = {  # written out once more, since the table of the library is what is tested
    "identity": lambda z: z,
    "linear": lambda z: z / 2,
    "polynomial": lambda z: (z + 1) ** 2 / 4,
    "exponential": lambda z: (torch.exp(z) - 1) / 2,
    "inverse": lambda z: z / (2 - z),
    "tanh": lambda z: (torch.exp(z) - torch.exp(-z)) / (torch.exp(z) + torch.exp(-z)),
    "sigmoid": lambda z: 1 / (1 + torch.exp(-z)),
    "relu": lambda z: (z + z.abs()) / 2,
}
sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 8), "m": st.integers(1, 4), "j": st.integers(1, 4),
        "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
theorem = settings(deadline=None, max_examples=10)


def polynomial_features(z):
    """F with <f(a), f(b)> = (a.b + 1)^2 / 4."""
    one = torch.ones(1, dtype=z.dtype)
    return torch.cat((one, 2**0.5 * z, torch.outer(z, z).flatten())) / 2


def linear_features(z):
    """F with <f(a), f(b)> = a.b / 2."""
    return z / 2**0.5


@pytest.mark.parametrize(
    ("q", "f", "steps"), [("polynomial", polynomial_features, 3), ("linear", linear_features, 4)]
)
def test_1_to_5_the_product_of_latent_vectors_is_the_nested_kernel(q, f, steps):
    """e_i . h_t = f(z~) . f(z_t) = q(x~.x_t + q(x~.x_{t-1} + ...)).

    After N steps the remainder is h~_{-N+1} . h_{t-N}; (5) prints h~_{-N} . h_{t-N}. The library's
    kernels start from nothing, so that their remainder is 0.
    """
    x, reference = sequence(steps, 1), sequence(1, 1)

    def latents(h, latent):
        for x_t in x:
            h = f(torch.cat((x_t, h)))  # (1), z_t = [x_t, h_{t-1}]
            latent = f(torch.cat((reference[0], latent)))  # (3), z~ = [x~, h~_{-1}]
        return latent @ h

    h, latent = sequence(1, 2)[0], sequence(1, 2)[0]  # h_{t-N} and h~_{-N+1}
    expected = recurrent_kernel_definition(x @ reference[0], FORMULAS[q])
    nested = latent @ h
    for x_t in x:
        nested = FORMULAS[q](reference[0] @ x_t + nested)
    torch.testing.assert_close(latents(h, latent), nested, **CLOSE)

    nothing = torch.zeros(2, dtype=torch.float64)
    product = latents(nothing, nothing)
    torch.testing.assert_close(expected, product, **CLOSE)
    kernel = RecurrentKernel(q, repeat=True)
    torch.testing.assert_close(kernel([x], [reference])[0, 0], product, **CLOSE)
    every_step = RecurrentKernel(q)([x], [reference.expand_as(x)])
    torch.testing.assert_close(every_step[0, 0], product, **CLOSE)
    layer = RKM(1, 1, q=q, feedback=False, dtype=torch.float64)
    set_weights(layer, {"candidate": reference[..., None]})
    torch.testing.assert_close(layer(x)[0][-1, 0], product, **CLOSE)


@pytest.mark.parametrize("q", MERCER)
def test_5_the_kernel_unrolls_into_nested_q(q):
    """k = q(x~.x_4 + q(x~.x_3 + q(x~.x_2 + q(x~.x_1)))), nothing before the first step."""
    f = FORMULAS[q]
    x, reference = small(4, 3), sequence(1, 3)
    s = x @ reference[0]
    expected = f(s[3] + f(s[2] + f(s[1] + f(s[0]))))
    torch.testing.assert_close(
        RecurrentKernel(q, repeat=True)([x], [reference])[0, 0], expected, **CLOSE
    )


@pytest.mark.parametrize("q", MERCER)
@theorem
@given(size=sizes)
def test_section_2_the_reference_sequence_repeats_one_vector(q, size):
    """(x~_t, x~_{t-1}, ...) -> (x~_i, x~_i, ...): the same filter at every shift."""
    torch.manual_seed(size["seed"])
    x, reference = small(size["T"], size["m"]), torch.rand(1, size["m"], dtype=torch.float64)
    torch.testing.assert_close(
        RecurrentKernel(q)([x], [reference.expand_as(x)]),
        RecurrentKernel(q, repeat=True)([x], [reference]),
        **CLOSE,
    )


@pytest.mark.parametrize("q", ALL_Q)
@theorem
@given(size=sizes)
def test_6_the_memory_cell(q, size):
    """h'_t = q(c_t), c_t = X~ x_t + q(c_{t-1}); the memory term of the first step is 0."""
    torch.manual_seed(size["seed"])
    layer = RKM(size["m"], size["j"], q=q, feedback=False, dtype=torch.float64)
    x, f = small(size["T"], size["m"]), FORMULAS[q]
    filters = layer.filters()["candidate"][:, :, 0]
    c, memory, outputs = None, torch.zeros(size["j"], dtype=torch.float64), []
    for x_t in x:
        c = filters @ x_t + memory
        memory = f(c)
        outputs.append(f(c))
    output, state = layer(x)
    torch.testing.assert_close(output, torch.stack(outputs), **CLOSE)
    torch.testing.assert_close((state.h[0], state.c[0]), (outputs[-1], c), **CLOSE)


@pytest.mark.parametrize("q", [*MERCER, "gaussian"])
@theorem
@given(size=sizes)
def test_6_every_unit_is_the_kernel_with_its_filter_at_every_step(q, size):
    """h'_{i,t} = k(x~_i * x_{<=t}) for every prefix, in the layer, the kernel and by nesting."""
    torch.manual_seed(size["seed"])
    x = small(size["T"], size["m"])
    layer = RKM(size["m"], size["j"], q=q, feedback=False, dtype=torch.float64)
    output, _ = layer(x)
    references = layer.references()
    prefixes = [x[: t + 1] for t in range(len(x))]
    gram = layer.kernel(prefixes, list(references))
    torch.testing.assert_close(output, gram, **CLOSE)
    if q != "gaussian":
        nested = recurrent_kernel_definition(x @ references[:, 0].T, FORMULAS[q])
        torch.testing.assert_close(output[-1], nested, **CLOSE)


@theorem
@given(size=sizes)
def test_7_the_readout_is_a_sum_of_kernels(size):
    """y_t = A h'_t = sum_i A_i k(x~_i * x), a function of the convolutions alone."""
    torch.manual_seed(size["seed"])
    layer = RKM(size["m"] + 1, size["j"], q="exponential", feedback=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.unflatten(1, (-1, layer.input_size))[..., -1] = (
            0  # the filters do not see one axis
        )
    x, A = small(size["T"], size["m"] + 1), sequence(3, size["j"])
    elsewhere = torch.zeros_like(x)
    elsewhere[:, -1] = torch.randn(len(x))
    kernel, references = layer.kernel, list(layer.references())
    y = A @ layer(x)[0][-1]
    torch.testing.assert_close(y, A @ kernel([x + elsewhere], references)[0], **CLOSE)


@theorem
@given(size=sizes)
def test_footnote_2_the_two_gaussian_forms_agree(size):
    """q(||z~ - z||^2) with z = [x, h] equals a q of inner products for unit-norm vectors."""
    torch.manual_seed(size["seed"])
    x = sequence(size["T"], size["m"])
    layer = RKM(size["m"], size["j"], q="gaussian", feedback=False, dtype=torch.float64)
    unit_x = x / x.norm(dim=1, keepdim=True)
    unit_r = layer.references()[:, 0] / layer.references()[:, 0].norm(dim=1, keepdim=True)
    distances = (unit_x[:, None] - unit_r).square().sum(-1)
    expected = gaussian_kernel_definition(distances)
    k = torch.ones(size["j"], dtype=torch.float64)
    for x_t in unit_x:
        k = torch.exp(unit_r @ x_t - 1 + k - 1)  # <z~, z> - 1, with <h~, h> = k
    torch.testing.assert_close(k, expected, **CLOSE)
    torch.testing.assert_close(layer(x)[0][-1], expected, **CLOSE)
    torch.testing.assert_close(layer.kernel([x], list(layer.references()))[0], expected, **CLOSE)


@theorem
@given(factor=st.floats(0.1, 10), size=sizes)
def test_footnote_2_the_length_of_inputs_and_filters_has_no_influence(factor, size):
    """The Gaussian form normalizes both."""
    torch.manual_seed(size["seed"])
    x = sequence(size["T"], size["m"])
    layer = RKM(size["m"], size["j"], q="gaussian", feedback=False, dtype=torch.float64)
    before, _ = layer(x)
    set_weights(layer, {"candidate": factor * layer.filters()["candidate"]})
    torch.testing.assert_close(layer(3 * factor * x)[0], before, **CLOSE)


@theorem
@given(size=sizes, T=st.integers(1, 6))
def test_footnote_2_the_gaussian_form_of_vectors_of_any_length(size, T):
    """q(||z~ - z||^2) with z = [x, h] and ||h~ - h||^2 = 2 - 2k: no vector need have length 1.

    Two empty prefixes are equal; an empty and a non-empty one are orthogonal.
    """
    torch.manual_seed(size["seed"])
    x, y = sequence(size["T"], size["m"]), sequence(T, size["m"])

    def by_hand(s, t):
        if not s or not t:
            return torch.tensor(float(s == t), dtype=torch.float64)
        distance = (x[s - 1] - y[t - 1]).square().sum() + 2 - 2 * by_hand(s - 1, t - 1)
        return torch.exp(-distance / 2)

    kernel = RecurrentKernel("gaussian", unit_norm=False)
    torch.testing.assert_close(kernel([x], [y])[0, 0], by_hand(len(x), len(y)), **CLOSE)
    layer = kernel.network(size["m"], size["j"], dtype=torch.float64)
    references = layer.references()
    distances = (x[:, None] - references[:, 0]).square().sum(-1)
    output = layer(x)[0]
    torch.testing.assert_close(output[-1], gaussian_kernel_definition(distances), **CLOSE)
    prefixes = [x[: t + 1] for t in range(len(x))]
    torch.testing.assert_close(output, layer.kernel(prefixes, list(references)), **CLOSE)


@theorem
@given(size=sizes, T=st.integers(1, 6), gates=st.tuples(st.floats(0, 2), st.floats(0, 1.5)))
def test_9_and_15_the_kernel_of_static_gates(size, T, gates):
    """Sum_N sigma_i^2 sigma_f^{2N} <X_{T-N}, Y_{S-N}>; against one window, h_t of the layer."""
    torch.manual_seed(size["seed"])
    x, y = sequence(size["T"], size["m"]), sequence(T, size["m"])
    a, b = gates
    common = range(min(len(x), len(y)))
    expected = sum(a * b**N * (x[len(x) - 1 - N] @ y[len(y) - 1 - N]) for N in common)
    kernel = RecurrentKernel("linear", static_gates=gates)
    torch.testing.assert_close(kernel([x], [y])[0, 0], expected, **CLOSE)
    layer = kernel.network(size["m"], size["j"], dtype=torch.float64)
    filters = layer.references()[:, 0]
    by_hand = sum(a * b**N * (filters @ x[len(x) - 1 - N]) for N in range(len(x)))
    torch.testing.assert_close(layer(x)[0][-1], by_hand, **CLOSE)
    gram = layer.kernel([x], list(layer.references()))
    torch.testing.assert_close(gram[0], by_hand, **CLOSE)
    halves = RecurrentKernel("linear", static_gates=(0.5, 0.5))([x], [y])
    torch.testing.assert_close(RecurrentKernel("linear")([x], [y]), halves, **CLOSE)


def test_9_and_15_the_kernel_of_static_gates_by_numbers():
    x, z, w = (torch.tensor(rows, dtype=torch.float64)
               for rows in ([[1, 2], [0, 1], [-1, 1]], [[2, 1], [1, 2]], [[1, -1]]))  # fmt: skip
    for options, y, value in [
        ({}, z, 1.33), ({"filter_length": 2}, z, 2.03), ({"repeat": True}, w, -2.597),
    ]:  # fmt: skip
        kernel = RecurrentKernel("linear", static_gates=(0.7, 0.9), **options)
        assert kernel([x], [y]).item() == pytest.approx(value, abs=1e-12)
    one = StringKernel(1, 0.9)  # the same unit, but all pairs of tokens between two sequences
    assert 0.7 * one([x], [w]).item() == pytest.approx(-2.597, abs=1e-12)
    assert 0.7 * one([x], [z]).item() == pytest.approx(6.7732, abs=1e-12)


class Scaled(torch.nn.Module):
    """q_theta(z) = theta (e^z - 1)."""

    def __init__(self, theta):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def forward(self, z):
        return self.theta * torch.expm1(z)


@theorem
@given(theta=st.floats(0.01, 0.5), size=sizes)
def test_5_a_q_with_parameters_is_the_kernel_of_their_values(theta, size):
    """q_theta of (5) and (6), in kernel and network, and its derivative by theta."""
    torch.manual_seed(size["seed"])
    x, q = small(size["T"], size["m"]), Scaled(theta)
    layer = RecurrentKernel(q).network(size["m"], size["j"], dtype=torch.float64)
    references = layer.references()
    by_hand = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    nested = recurrent_kernel_definition(
        x @ references[:, 0].T, lambda z: by_hand * (torch.exp(z) - 1)
    )
    gram = layer.kernel([x], list(references))[0]
    (expected,) = torch.autograd.grad(nested.sum(), by_hand)
    for found in (layer(x)[0][-1], gram):
        torch.testing.assert_close(found, nested, **CLOSE)
        (slope,) = torch.autograd.grad(found.sum(), q.theta)
        torch.testing.assert_close(slope, expected, **CLOSE)


@pytest.mark.parametrize("q", ALL_Q)
@theorem
@given(size=sizes)
def test_8_feedback_of_the_last_output(q, size):
    """c_t = X~ x_t + H~ h'_{t-1} + q(c_{t-1})."""
    torch.manual_seed(size["seed"])
    layer = RKM(size["m"], size["j"], q=q, feedback=True, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0.div_(4)
    weights = Weights.of(layer)
    x, f = small(size["T"], size["m"], largest=0.03), FORMULAS[q]
    h = torch.zeros(size["j"], dtype=torch.float64)
    memory, outputs = torch.zeros_like(h), []
    for t in range(len(x)):
        c = weights.z("candidate", x, t, h) + memory
        h = memory = f(c)
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), **CLOSE)


def test_8_the_gaussian_form_with_feedback():
    """c_t = -||z~ - z_t||^2 / 2 + H~ h'_{t-1} on unit vectors."""
    layer = RKM(3, 4, q="gaussian", feedback=True, dtype=torch.float64)
    x, (recurrent,) = sequence(6, 3), layer.recurrent().values()
    filters = layer.filters()["candidate"][:, :, 0]
    h, k, outputs = torch.zeros(4, dtype=torch.float64), 1.0, []
    for x_t in x:
        distance = (x_t / x_t.norm() - filters).square().sum(1)
        h = k = torch.exp(-(distance + 2 - 2 * k) / 2 + recurrent @ h)
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), **CLOSE)
