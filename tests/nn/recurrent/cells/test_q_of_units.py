"""Units of one RKM with different q, q with parameters, and Gaussians of vectors of any length."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from representer.errors import ArgumentError, NoKernelError
from representer.kernels import RecurrentKernel
from representer.nn import RKM

ONE = {"rtol": 1e-12, "atol": 1e-12}


def alone(layer, q, unit, **options):
    """Return a layer of one unit with the weights of a unit of another layer."""
    single = RKM(layer.input_size, 1, q=q, feedback=False, dtype=torch.float64, **options)
    with torch.no_grad():
        single.weight_ih_l0.copy_(layer.weight_ih_l0[unit : unit + 1])
    return single


@pytest.mark.parametrize("q", [
    ("exponential", "tanh", "exponential", "inverse"),
    {"polynomial": 1, "sigmoid": 3},
    ["linear", torch.sin, "relu", "linear"],
])  # fmt: skip
def test_each_unit_evaluates_its_q(q):
    torch.manual_seed(1)
    layer = RKM(3, 4, q=q, feedback=False, filter_length=2, dtype=torch.float64)
    x = 0.1 * torch.randn(6, 2, 3, dtype=torch.float64)
    output, _ = layer(x)
    for unit, q_i in enumerate(layer.q):
        single = alone(layer, q_i, unit, filter_length=2)
        torch.testing.assert_close(output[..., unit], single(x)[0][..., 0], **ONE)
    _, carried = layer(x[:4])
    torch.testing.assert_close(layer(x[4:], carried)[0], output[4:], **ONE)
    with pytest.raises(NoKernelError, match=r"unit i evaluates RecurrentKernel\(q_i, repeat=True"):
        layer.kernel  # noqa: B018


def test_feedback_mixes_units_of_different_q():
    layer = RKM(2, 2, q={"exponential": 1, "tanh": 1}, dtype=torch.float64)
    x, h = 0.2 * torch.randn(5, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    memory = h
    for t in range(5):
        c = layer.weight_ih_l0 @ x[t] + layer.weight_hh_l0 @ h + memory
        h = memory = torch.stack((torch.expm1(c[0]) / 2, c[1].tanh()))
    torch.testing.assert_close(layer(x)[0][-1], h, **ONE)


@pytest.mark.parametrize(("q", "message"), [
    (("linear",), "one q for each of hidden_size = 2 units. They are 1"),
    ({"linear": 3}, "They are 3"),
    ({"linear": 2.0}, "a dict {q: units} of positive integers"),
    (("linear", "gaussian"), "give them a layer of their own"),
    (("linear", "exp"), "q is 'exp'; expected for each unit"),
    (3, "q is 3; expected a callable or one of"),
])  # fmt: skip
def test_an_invalid_q_of_units_is_refused(q, message):
    with pytest.raises(ArgumentError) as caught:
        RKM(3, 2, q=q)
    assert message in str(caught.value)


class ScaledExponential(nn.Module):
    """q(z) = a (exp(b z) - 1) with learned a and b."""

    def __init__(self, a: float = 0.5, b: float = 1.0) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))
        self.b = nn.Parameter(torch.tensor(b, dtype=torch.float64))

    def forward(self, z):
        return self.a * torch.expm1(self.b * z)


def test_a_q_with_parameters_is_trained_in_kernel_and_network():
    q, x = ScaledExponential(), 0.2 * torch.randn(5, 3, dtype=torch.float64)
    kernel = RecurrentKernel(q)
    torch.testing.assert_close(kernel([x]), RecurrentKernel("exponential")([x]), **ONE)
    layer = kernel.network(3, 2, dtype=torch.float64)
    assert layer.kernel.q is q
    assert {id(p) for p in q.parameters()} <= {id(p) for p in layer.parameters()}
    last, references = layer(x)[0][-1], list(layer.references())
    torch.testing.assert_close(last, layer.kernel([x], references)[0], **ONE)
    by_layer = torch.autograd.grad(last.sum(), [*q.parameters()])
    by_kernel = torch.autograd.grad(layer.kernel([x], references).sum(), [*q.parameters()])
    torch.testing.assert_close(by_layer, by_kernel, **ONE)
    assert all(g != 0 for g in by_layer)


def test_a_q_with_parameters_is_checked_at_construction_only():
    with pytest.raises(ArgumentError, match="power series with non-negative coefficients"):
        RecurrentKernel(ScaledExponential(b=-1.0))
    q = ScaledExponential()
    kernel = RecurrentKernel(q)
    with torch.no_grad():
        q.b.neg_()  # as training can
    x = torch.ones(1, 1, dtype=torch.float64)
    expected = 0.5 * torch.expm1(-torch.ones(1, 1, dtype=torch.float64))
    torch.testing.assert_close(kernel([x]).detach(), expected, **ONE)


@pytest.mark.parametrize("gates", [(1, -2), (1, float("nan")), 3, (1, 2, 3), ("a", 1)])
def test_static_gates_are_two_numbers_that_are_not_negative(gates):
    with pytest.raises(ArgumentError, match="two finite, non-negative numbers"):
        RecurrentKernel("linear", static_gates=gates)
    with pytest.raises(ArgumentError, match="'linear' with static_gates"):
        RecurrentKernel("exponential", static_gates=(0.5, 0.5))
