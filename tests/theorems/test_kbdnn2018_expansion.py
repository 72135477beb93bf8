"""Marra et al. 2018, (1) to (6) and section 3: the best activation is a kernel expansion."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from representer.nn import KernelActivation, activation_penalty, replace_activations

CASES = st.tuples(st.integers(2, 9), st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 5.0]))
EACH = settings(deadline=None, max_examples=40)


def problem(case) -> tuple[Tensor, Tensor, float]:
    """Return places, wanted values, and the weight of the squared derivative."""
    count, seed, weight = case
    generator = torch.Generator().manual_seed(seed)
    steps = 0.05 + torch.rand(count, generator=generator, dtype=torch.float64)
    return steps.cumsum(0) - 1, torch.randn(count, generator=generator).double(), weight


def closed_form(a: Tensor, y: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """Solve (3) for a squared loss: mu alpha = f(a) - y, with f of (5) flat beyond the ends.

    Flat ends are theta = 0 and sum alpha = 0, the natural conditions where nothing is fixed there.
    """
    count = len(a)
    system = torch.zeros(count + 1, count + 1, dtype=torch.float64)
    system[:count, :count] = 0.5 * (a[:, None] - a).abs() - weight * torch.eye(count).double()
    system[:count, count] = 1  # nu
    system[count, :count] = 1
    found = torch.linalg.solve(system, torch.cat((y, y.new_zeros(1))))
    return found[:count], found[count]


def of_five(at: Tensor, a: Tensor, alpha: Tensor, nu: Tensor) -> Tensor:
    return nu + 0.5 * (alpha * (at[:, None] - a).abs()).sum(-1)


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
    alpha, nu = closed_form(a, y, weight)
    torch.testing.assert_close(of_five(grid, a, alpha, nu), best, rtol=0, atol=1e-9)


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
    alpha, nu = closed_form(a, y, weight)
    torch.testing.assert_close(
        activation(grid[:, None])[:, 0], of_five(grid, a, alpha, nu), rtol=0, atol=1e-8
    )


def test_4_minus_the_rectifier_is_the_green_function_of_minus_the_second_derivative():
    """int g(x - c) (-phi''(x)) dx = phi(c) for a smooth phi that vanishes at the ends."""
    x = torch.linspace(-8, 8, 400_001, dtype=torch.float64)
    phi_second = (x**2 - 1) * torch.exp(-(x**2) / 2)
    for c in (-1.3, 0.0, 0.7):
        g = -0.5 * ((x - c).abs() + (x - c))
        found = torch.trapezoid(-g * phi_second, x)
        assert found.item() == pytest.approx(torch.exp(torch.tensor(-(c**2) / 2)).item(), abs=1e-6)


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
