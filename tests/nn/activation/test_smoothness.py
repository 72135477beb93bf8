"""Penalties on smoothness and expansions over a training set: numbers, splines, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import make_smoothing_spline
from torch import nn

from representer.errors import ArgumentError, ShapeError
from representer.nn import KernelActivation, activation_penalty
from representer.nn.activation.smoothness import expansion

NUMBERS = {  # 2 × the penalty of c = (-1, 0, 2), chi = (2, -3, 2), theta = 1/2, by two limits
    "abs": (27.25, 12.375), "relu": (9.25, 3.375), "cubic": (2076.0, 1255.5),
    "gaussian": (8.186480656915, 8.186480656915),
}  # fmt: skip
A, Y = [-1.0, 0.0, 1.5, 2.0], [1.0, -1.0, 2.0, 0.0]
FITTED = {  # by enumeration: mu, chi, line, f(a) and f(0.75)
    "abs": (0.5, [-0.396226415094, 0.811320754717, -0.943396226415, 0.528301886792],
            [0, 0.566037735849],
            [0.603773584906, -0.188679245283, 1.056603773585, 0.528301886792, 0.433962264151]),
    "relu": (0.5, [-0.792452830188, 1.622641509434, -1.886792452830, 1.056603773585],
             [0, 0.603773584906],
             [0.603773584906, -0.188679245283, 1.056603773585, 0.528301886792, 0.433962264151]),
    "cubic": (0.1, [0.257157899000, -0.607864577006, 0.888510914024, -0.537804236018],
              [-1.161017292350, 0.775989146722],
              [0.691410521200, -0.270562507593, 0.933786903171, 0.645365083222, 0.351430567367]),
    "gaussian": (0.1, [2.833021490325, -3.901692905670, 6.999607208446, -5.164151811091], None,
                 [0.716697850968, -0.609830709433, 1.300039279155, 0.516415181109,
                  0.586791280170]),
}  # fmt: skip


def close(tensor, expected):
    np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("green", NUMBERS)
def test_the_penalty_has_the_values_of_the_closed_forms(green):
    for limits, value in zip([(-2.0, 3.0), (-0.5, 1.0)], NUMBERS[green], strict=True):
        f = KernelActivation(2, 3, green, limits, "zeros", linear_term=True, dtype=torch.float64)
        with torch.no_grad():
            f.centers.copy_(torch.tensor([[2.0, -1, 0], [-1, 0, 2]]))
            f.coefficients.copy_(torch.tensor([[2.0, 2, -3], [2, -3, 2]]))
            f.line[:, 0] = 0.5
        assert f.penalty("smoothness").item() == pytest.approx(value, abs=1e-11)  # two halves
        network = nn.Sequential(f, nn.ReLU(), nn.Linear(2, 2), f)
        assert torch.equal(activation_penalty(network, "smoothness"), f.penalty("smoothness"))


@pytest.mark.parametrize("green", NUMBERS)
def test_the_gradient_of_the_penalty_is_exact(green):
    f = KernelActivation(2, 4, green, (-1.0, 1.5), linear_term=True, dtype=torch.float64)

    def penalty(*tensors):
        state = dict(zip(("centers", "coefficients", "line"), tensors, strict=True))
        return torch.func.functional_call(_Penalty(f), {f"f.{k}": v for k, v in state.items()}, ())

    assert torch.autograd.gradcheck(penalty, (f.centers, f.coefficients, f.line))


class _Penalty(nn.Module):
    def __init__(self, f: KernelActivation) -> None:
        super().__init__()
        self.f = f

    def forward(self) -> torch.Tensor:
        return self.f.penalty("smoothness")


@pytest.mark.parametrize("green", FITTED)
def test_the_expansion_has_the_values_computed_by_enumeration(green):
    smoothness, chi, line, outputs = FITTED[green]
    f = KernelActivation.from_data(A, Y, smoothness=smoothness, green=green)
    close(f.coefficients[0], chi)
    assert (f.line is None) == (line is None)
    if line is not None:
        close(f.line[0], line)
    close(f(torch.tensor([*A, 0.75], dtype=torch.float64)[:, None])[:, 0], outputs)


def test_the_cubic_expansion_is_the_smoothing_spline_between_the_data():
    rng = np.random.default_rng(0)
    a, y, w = np.sort(rng.normal(size=9)), rng.normal(size=9), rng.uniform(0.5, 2, 9)
    f = KernelActivation.from_data(a, y, smoothness=0.3, weights=w, green="cubic")
    spline = make_smoothing_spline(a, y, w, lam=0.3)
    points = np.linspace(a[0], a[-1], 40)
    close(f(torch.from_numpy(points)[:, None])[:, 0], spline(points))


@pytest.mark.parametrize("green", ["abs", "relu", "cubic"])
def test_f_continues_as_a_free_end_beyond_the_data(green):
    f = KernelActivation.from_data(A, Y, smoothness=0.2, green=green)
    a = torch.tensor([-30.0, -20, -10, 10, 20, 30], dtype=torch.float64)
    left, right = f(a[:, None])[:, 0].detach().chunk(2)
    bend = 1 if green == "cubic" else 0  # a line, or a constant
    for outside in (left, right):
        assert outside.diff(n=1 + bend).abs().max() < 1e-9 * 10 ** (3 * bend)


@pytest.mark.parametrize("green", FITTED)
def test_repeated_inputs_are_one_with_the_sum_of_the_weights(green):
    f = KernelActivation.from_data([0.0, 1, 1, 2], [1.0, 0, 3, 1], smoothness=0.5, green=green)
    merged = KernelActivation.from_data(
        [0.0, 1, 2], [1.0, 1.5, 1], smoothness=0.5, weights=[1, 2, 1], green=green
    )
    a = torch.linspace(-1, 3, 9, dtype=torch.float64)[:, None]
    torch.testing.assert_close(f(a), merged(a))


def test_each_feature_and_normalized_inputs():
    a = 3 + 2 * torch.randn(12, 2, dtype=torch.float64)
    y = torch.randn(12, 2, dtype=torch.float64)
    f = KernelActivation.from_data(a, y, smoothness=0.1, normalize=True).eval()
    low, high = f.centers.detach().aminmax()
    assert f.limits[0] <= low <= high <= f.limits[1]
    assert (f.num_features, f.num_centers) == (2, 12)
    for i in range(2):
        scaled = (a[:, i] - a[:, i].mean()) / (a[:, i].var(correction=0) + 1e-5).sqrt()
        one = KernelActivation.from_data(scaled, y[:, i], smoothness=0.1)
        torch.testing.assert_close(f(a)[:, i], one(scaled[:, None])[:, 0])
    in_evaluation = f(a)  # before training mode updates the statistics
    torch.testing.assert_close(f.train()(a), in_evaluation)


def test_the_dtype_is_that_of_the_inputs():
    a = torch.randn(5)
    assert KernelActivation.from_data(a, a, smoothness=1.0).centers.dtype == torch.float32
    f = KernelActivation.from_data(a, a, smoothness=1.0, dtype=torch.float64)
    assert f.coefficients.dtype == torch.float64


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"smoothness": 0}, ArgumentError, "smoothness is 0; expected a positive number"),
        ({"y": [1.0]}, ShapeError, "the shape of a"),
        ({"a": [[[1.0]]]}, ShapeError, r"\(N,\) or \(N, F\)"),
        ({"a": []}, ShapeError, r"\(N,\) or \(N, F\)"),
        ({"a": [0.0, float("nan")], "y": [0.0, 1]}, ArgumentError, "finite numbers"),
        ({"weights": [1.0, 1, 1, 0]}, ArgumentError, "finite and positive"),
        ({"green": torch.cos}, ArgumentError, "whose operator P is known"),
    ],
)
def test_invalid_data_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        KernelActivation.from_data(**{"a": A, "y": Y, "smoothness": 1.0, **arguments})


def test_a_penalty_without_a_known_operator_is_refused():
    with pytest.raises(ArgumentError, match="whose operator P is known"):
        KernelActivation(1, green=torch.cos).penalty("smoothness")
    with pytest.raises(ArgumentError, match="norm is 'l2'; expected 'l1' or 'smoothness'"):
        KernelActivation(1).penalty("l2")
    rows = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(ArgumentError, match="green"):
        expansion(rows, rows, rows, 1.0, torch.cos, 1.0)
