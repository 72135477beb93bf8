"""Marra et al. 2018, (1) to (6) and section 3: the best activation is a kernel expansion."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from representer.functional import green_function
from representer.nn import KernelActivation, activation_penalty, replace_activations
from representer_papers.kbdnn2018.networks import charging_network, long_term_network

CASES = st.tuples(st.integers(2, 9), st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 5.0]))
EACH = settings(deadline=None, max_examples=8)


def problem(case) -> tuple[Tensor, Tensor, float]:
    """Return places, wanted values, and the weight of the squared derivative."""
    count, seed, weight = case
    generator = torch.Generator().manual_seed(seed)
    steps = 0.05 + torch.rand(count, generator=generator, dtype=torch.float64)
    return steps.cumsum(0) - 1, torch.randn(count, generator=generator).double(), weight


GREENS = pytest.mark.parametrize("green", ["abs", "relu", "cubic", "gaussian"])


def values(activation: KernelActivation, points: Tensor) -> Tensor:
    return activation(points[:, None])[:, 0].detach()


@given(CASES)
@EACH
def test_2_to_5_no_function_of_a_fine_grid_is_better(case):
    """The minimizer of mu/2 int f'^2 + sum (f - y)^2 / 2 has corners at the data alone."""
    a, y, weight = problem(case)
    between = [
        torch.linspace(0, 1, 8, dtype=torch.float64)[1:] * (high - low) + low
        for low, high in pairwise(a)
    ]
    grid = torch.cat((a[:1], *between))
    at_data = torch.arange(0, len(grid), 7)
    steps = grid.diff()
    slopes = torch.zeros(len(steps), len(grid), dtype=torch.float64)
    rows = torch.arange(len(steps))
    slopes[rows, rows], slopes[rows, rows + 1] = -1 / steps, 1 / steps
    normal = weight * slopes.mT @ (steps[:, None] * slopes)
    normal[at_data, at_data] += 1
    right = torch.zeros(len(grid), dtype=torch.float64)
    right[at_data] = y
    best = torch.linalg.solve(normal, right)
    fitted = KernelActivation.from_data(a, y, smoothness=weight)
    torch.testing.assert_close(values(fitted, grid), best, rtol=0, atol=1e-9)


@given(CASES)
@EACH
def test_2_to_5_the_fitted_expansion_is_the_closed_form(case):
    """One Newton step over coefficients and line, in which the functional is quadratic."""
    a, y, weight = problem(case)
    activation = KernelActivation(1, len(a), init="zeros", linear_term=True, dtype=torch.float64)
    with torch.no_grad():
        activation.centers.copy_(a[None])

    def of(parameters: Tensor) -> Tensor:
        state = {"coefficients": parameters[None, :-2], "line": parameters[None, -2:]}

        def f(x: Tensor) -> Tensor:
            return torch.func.functional_call(activation, state, (x[:, None],))[:, 0]

        middles = (a[:-1] + a[1:]) / 2
        slopes = torch.func.grad(lambda x: f(x).sum())(middles)
        loss = (f(a) - y).square().sum() / 2
        return weight / 2 * (a.diff() * slopes.square()).sum() + loss

    start = torch.zeros(len(a) + 2, dtype=torch.float64)
    base, hessian = torch.func.grad(of)(start), torch.func.hessian(of)(start)
    # the outermost coefficients and the line say the same between the ends: the least of many
    best = torch.linalg.lstsq(hessian, -base, driver="gelsd").solution
    with torch.no_grad():
        activation.coefficients.copy_(best[None, :-2])
        activation.line.copy_(best[None, -2:])
    grid = torch.linspace(float(a[0]), float(a[-1]), 60, dtype=torch.float64)
    fitted = KernelActivation.from_data(a, y, smoothness=weight)
    torch.testing.assert_close(values(activation, grid), values(fitted, grid), rtol=0, atol=1e-8)


@GREENS
@given(CASES)
@EACH
def test_3_and_4_the_coefficients_are_the_residuals_at_the_data(green, case):
    """mu L f + sum V'(f(a_k)) delta(a - a_k) = 0, Lg = gamma delta: chi = (y - f) / gamma mu."""
    a, y, weight = problem(case)
    gamma = {"abs": -2, "relu": -1, "cubic": 12, "gaussian": 1}[green]
    fitted = KernelActivation.from_data(a, y, smoothness=weight, green=green)
    chi = fitted.coefficients.detach()[0]
    residuals = (y - values(fitted, a)) / (gamma * weight)
    torch.testing.assert_close(chi, residuals, rtol=1e-7, atol=1e-7 / weight)
    free = {"gaussian": [], "cubic": [torch.ones_like(a), a]}.get(green, [torch.ones_like(a)])
    for function in free:  # of those with Pf = 0, the data determine the multiples
        assert abs(float(chi @ function)) < 1e-7 / weight


@GREENS
@given(CASES)
@EACH
def test_2_no_other_expansion_has_a_lower_objective(green, case):
    """mu/2 (Pf, Pf) + 1/2 sum (y - f)^2, with the library's penalty, is convex and flat at f."""
    a, y, weight = problem(case)
    fitted = KernelActivation.from_data(a, y, smoothness=weight, green=green)
    error = (fitted(a[:, None])[:, 0] - y).square().sum() / 2
    (weight * fitted.penalty("smoothness") + error).backward()
    parameters = [p for p in (fitted.coefficients, fitted.line) if p is not None]
    largest = max(float(p.grad.abs().max()) for p in parameters)
    assert largest < 1e-6 * (1 + float(y.abs().sum())) * (1 + 10 ** (3 * (green == "cubic")))


@GREENS
@given(CASES, st.booleans())
@EACH
def test_2_the_penalty_is_the_integral_of_the_squared_derivative(green, case, is_inside):
    """(Pf, Pf) over the limits by quadrature; of a Gaussian, the sum over all pairs of centers."""
    c, chi, _ = problem(case)
    limits = (float(c[0]) - 0.5, float(c[-1]) + 0.5) if is_inside else (-0.2, 0.9)
    activation = KernelActivation(
        1, len(c), green, limits, "zeros", linear_term=True, bandwidth=0.7, dtype=torch.float64
    )
    with torch.no_grad():
        activation.centers.copy_(c.flip(0)[None])
        activation.coefficients.copy_(chi.flip(0)[None])
        activation.line.copy_(torch.tensor([[0.6, -0.3]]))
    if green == "gaussian":
        pairs = torch.exp(-(c[:, None] - c).square() / (2 * 0.7**2))
        expected = chi @ pairs @ chi
    else:  # exact on pieces between corners: f' is constant on them, or f'' linear
        knots = torch.cat((torch.tensor(limits, dtype=c.dtype), c.clamp(*limits))).sort()[0]
        nodes, weights = torch.tensor([[-(0.6**0.5), 0, 0.6**0.5], [5, 8, 5]], dtype=c.dtype)
        middles, halves = (knots[1:] + knots[:-1]) / 2, knots.diff() / 2
        points = (middles[:, None] + halves[:, None] * nodes).flatten().requires_grad_()
        derivative = torch.autograd.grad(
            activation(points[:, None]).sum(), points, create_graph=green == "cubic"
        )[0]
        if green == "cubic":
            derivative = torch.autograd.grad(derivative.sum(), points)[0]
        squares = derivative.square().reshape(-1, 3) @ weights / 18
        expected = (squares * 2 * halves).sum()
    found = 2 * activation.penalty("smoothness")
    torch.testing.assert_close(found.detach(), expected.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("green", "gamma"), [("abs", -2), ("relu", -1), ("cubic", 12)])
def test_4_the_library_has_the_green_functions_of_its_operators(green, gamma):
    """int g(x - c) L phi(x) dx = gamma phi(c) for a smooth phi: L is -d^2, or d^4 for the cubic.

    So the paper's -(|x| + x) / 2 = -relu is the Green function of -d^2/dx^2.
    """
    x = torch.linspace(-8, 8, 400_001, dtype=torch.float64)
    phi = torch.exp(-(x**2) / 2)
    applied = (x**4 - 6 * x**2 + 3) * phi if green == "cubic" else (1 - x**2) * phi
    for c in (-1.3, 0.0, 0.7):
        g = green_function(green)(x - c)
        value = torch.trapezoid(g * applied, x)
        expected = gamma * torch.exp(torch.tensor(-(c**2) / 2)).item()
        assert value.item() == pytest.approx(expected, abs=1e-5)


def test_section_3_the_rectifier_without_its_linear_term_is_the_absolute_value():
    """g(x) = -(|x| + x) / 2, "neglect the linear terms from both g(x) and k(x)": -|x| / 2 stays.

    So that a sum of relu is one of half the absolute values and a line, which the paper drops.
    """
    c, chi = torch.tensor([-1.0, 0.5, 2.0]).double(), torch.tensor([0.3, -1.0, 2.0]).double()
    relu, absolute = (
        KernelActivation(1, 3, green, init="zeros", dtype=torch.float64)
        for green in ("relu", "abs")
    )
    with torch.no_grad():
        for activation, factor in ((relu, 1.0), (absolute, 0.5)):
            activation.centers.copy_(c[None])
            activation.coefficients.copy_(factor * chi[None])
    points = torch.linspace(-3, 3, 13, dtype=torch.float64)
    line = (points[:, None] - c) @ chi / 2
    torch.testing.assert_close(values(relu, points), values(absolute, points) + line)
    assert charging_network("kbrn").layer.activation().green == "abs"
    assert long_term_network("kbrn", "paper", 2, 3).layer.activation().green == "abs"


@given(CASES)
@EACH
def test_5_the_rectifier_form_is_the_absolute_value_with_another_line(case):
    """k(a) - sum alpha g(a - a_k), k = m a + q, has theta = m + sum alpha / 2, nu as printed."""
    a, alpha, m = problem(case)
    q, at = 0.3, torch.linspace(-3, 9, 50, dtype=torch.float64)
    g = -0.5 * ((at[:, None] - a).abs() + (at[:, None] - a))
    left = m * at + q - (alpha * g).sum(-1)
    activation = KernelActivation(1, len(a), init="zeros", linear_term=True, dtype=torch.float64)
    with torch.no_grad():
        activation.centers.copy_(a[None])
        activation.coefficients.copy_(alpha[None] / 2)
        activation.line[0, 0] = m + alpha.sum() / 2
        activation.line[0, 1] = q - (alpha * a).sum() / 2
    torch.testing.assert_close(activation(at[:, None])[:, 0], left, rtol=0, atol=1e-10)


@given(CASES)
@EACH
def test_6_a_few_centers_of_their_own_stand_for_the_data(case):
    """f_i(a) = sum_k chi_i^k g(a - c_i^k), with minus the rectifier as g."""
    c, chi, _ = problem(case)
    activation = KernelActivation(1, len(c), "relu", init="zeros", dtype=torch.float64)
    with torch.no_grad():
        activation.centers.copy_(c.flip(0)[None])
        activation.coefficients.copy_(chi.flip(0)[None])
    at = torch.linspace(-3, 9, 50, dtype=torch.float64)
    g = -0.5 * ((at[:, None] - c).abs() + (at[:, None] - c))
    torch.testing.assert_close(
        activation(at[:, None])[:, 0], -(chi * g).sum(-1), rtol=0, atol=1e-10
    )


def test_1_every_neuron_of_a_network_has_a_function_of_its_own():
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    replace_activations(network, 5, x)
    activation = network[1]
    a = network[0](x)
    with torch.no_grad():
        activation.coefficients.normal_()
    each = [
        (activation.coefficients[i] * (a[:, i, None] - activation.centers[i]).abs()).sum(-1)
        + activation.line[i, 0] * a[:, i]
        + activation.line[i, 1]
        for i in range(4)
    ]
    torch.testing.assert_close(network[2](torch.stack(each, -1)), network(x))


def test_section_3_the_penalty_is_the_sum_of_absolute_coefficients():
    """Of every neuron and center, in one activation and in a network of several."""
    activations = [KernelActivation(2, 3, dtype=torch.float64) for _ in range(2)]
    with torch.no_grad():
        activations[0].coefficients.copy_(torch.tensor([[1.0, -2.0, 0.5], [0.0, 4.0, -8.0]]))
        activations[1].coefficients.copy_(torch.tensor([[0.25, 0.0, 0.0], [0.0, -0.5, 0.0]]))
    assert activations[0].penalty().item() == 1 + 2 + 0.5 + 4 + 8
    network = nn.Sequential(activations[0], nn.Linear(2, 2), activations[1])
    penalty = activation_penalty(network)
    assert penalty.item() == 15.5 + 0.25 + 0.5
    penalty.backward()
    signs = torch.tensor([[1.0, -1, 1], [0, 1, -1]], dtype=torch.float64)
    assert torch.equal(activations[0].coefficients.grad, signs)
    assert activations[0].centers.grad is None


def test_section_3_the_inputs_are_normalized_over_the_batch():
    """f(gamma (a - mu) / sqrt(var + eps) + beta): of the batch in training, running ones after."""
    activation = KernelActivation(2, 4, normalize=True, dtype=torch.float64)
    gain = torch.tensor([0.5, -2.0], dtype=torch.float64)
    offset = torch.tensor([3.0, 0.25], dtype=torch.float64)
    with torch.no_grad():
        activation.norm.weight.copy_(gain)
        activation.norm.bias.copy_(offset)

    def f(a: Tensor) -> Tensor:
        distances = (a[..., None] - activation.centers).abs()
        return (activation.coefficients * distances).sum(-1)

    def normalized(a: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return gain * (a - mean) / (var + 1e-5).sqrt() + offset

    first, second = 3 * torch.randn(2, 7, 5, 2, dtype=torch.float64) + 1
    means, variances = [], []
    for batch in (first, second):
        rows = batch.reshape(-1, 2)
        means.append(rows.sum(0) / 35)
        variances.append((rows - means[-1]).square().sum(0) / 35)
        expected = f(normalized(batch, means[-1], variances[-1]))
        torch.testing.assert_close(activation(batch), expected)
    running, spread = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    for mean, variance in zip(means, variances, strict=True):  # as torch.nn.BatchNorm1d has them
        running = 0.9 * running + 0.1 * mean
        spread = 0.9 * spread + 0.1 * variance * 35 / 34
    activation.eval()
    torch.testing.assert_close(activation(first), f(normalized(first, running, spread)))
