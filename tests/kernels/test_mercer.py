from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from representer.functional import NONLINEARITIES
from representer.kernels.composition import mercer_violation

GOOD = {
    "0": torch.zeros_like,
    "3": lambda z: torch.full_like(z, 3),
    "z^2": torch.square,
    "(1 + z)^3": lambda z: (1 + z) ** 3,
    "e^z": torch.exp,
    "1e6 e^{3z}": lambda z: 1e6 * torch.exp(3 * z),
    "sinh z": torch.sinh,
    "asin z": torch.asin,
    "1 / (1 - z)": lambda z: 1 / (1 - z),
    "1 / (1 - 10 z)": lambda z: 1 / (1 - 10 * z),
    "-log(1 - z)": lambda z: -torch.log1p(-z),
    "1 - sqrt(1 - z)": lambda z: 1 - (1 - z).sqrt(),
}
NEGATIVE = {
    0: lambda z: z - 1,
    1: lambda z: torch.exp(z) - 1.001 * z,
    2: lambda z: torch.sqrt(1 + z),
    3: torch.tanh,
    4: F.gelu,
    5: lambda z: torch.exp(z) - z**5 / 100,
    7: lambda z: torch.exp(z) - z**7 / 1000,
}
NO_SERIES = {"relu": torch.relu, "abs": torch.abs, "elu": F.elu, "log": torch.log}


@pytest.mark.parametrize("q", GOOD.values(), ids=GOOD.keys())
def test_a_series_without_negative_coefficients_is_accepted(q):
    assert mercer_violation(q) == ""


@pytest.mark.parametrize("power", NEGATIVE)
def test_the_reason_names_the_negative_coefficient(power):
    assert mercer_violation(NEGATIVE[power]).startswith(f"the coefficient of z^{power} ")


@pytest.mark.parametrize("q", NO_SERIES.values(), ids=NO_SERIES.keys())
def test_functions_without_a_power_series_are_rejected(q):
    assert "no power series" in mercer_violation(q)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_callables_and_names_give_the_same_result(name):
    q = NONLINEARITIES[name]
    assert (mercer_violation(name) == "") == (mercer_violation(q.value) == "") == q.mercer


@given(coefficients=st.lists(st.floats(0, 10), min_size=1, max_size=6))
def test_every_polynomial_with_non_negative_coefficients_is_accepted(coefficients):
    assert mercer_violation(lambda z: sum(a * z**k for k, a in enumerate(coefficients))) == ""


def test_a_module_with_parameters_of_another_dtype_is_evaluated():
    weight = torch.nn.Parameter(torch.tensor(0.5))
    assert mercer_violation(lambda z: torch.exp(weight * z)) == ""
