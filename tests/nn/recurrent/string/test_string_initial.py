"""Every state of a string-kernel layer has unit variance over random inputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from representer import nn
from representer.errors import ArgumentError
from representer.functional import StringChain
from representer.nn.recurrent.initial import fixed_moments, token_deviations

ORDER, INPUT, UNITS, BATCH, LONG = 3, 16, 120, 30, 150


class Sampled(NamedTuple):
    """Mean squares of c_1 … c_n over random weights and inputs, with four standard errors."""

    mean: Tensor
    error: Tensor


def sampled(length: int = LONG, **options: Any) -> Sampled:
    """Return the mean squares of the states of the last step.

    All units read the same inputs and all inputs are read by the same units, so both the means over
    units and those over inputs vary, and their standard errors add.
    """
    torch.manual_seed(3)
    layer = nn.StringKernelRNN(INPUT, UNITS, order=ORDER, dtype=torch.float64, **options)
    x = torch.randn(length, BATCH, INPUT, dtype=torch.float64)
    with torch.no_grad():
        squares = layer.cell_states(x)[-1].square()  # (B, n, H)
    over_units, over_inputs = squares.mean(2), squares.mean(0)
    error = (over_units.var(0) / BATCH + over_inputs.var(1) / UNITS).sqrt()
    return Sampled(squares.mean((0, 2)), 4 * error)


def tail(length: int, chance: float, least: int) -> float:
    """Return the probability of ``least`` or more successes in ``length`` trials."""
    terms = (
        math.comb(length, k) * chance**k * (1 - chance) ** (length - k)
        for k in range(least, length + 1)
    )
    return sum(terms)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, "learned", "input", "state"])
def test_every_state_of_a_product_has_unit_variance(normalized: bool, decay: float | str):
    found = sampled(normalized=normalized, decay=decay)
    # a unit of the slowest decays has not reached its limit, and a gate on h is correlated with c
    slack = {"state": 0.2, "input": 0.05, "learned": 0.05}.get(str(decay), 0.0)
    assert ((found.mean - 1).abs() < found.error + slack).all()


@pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
@pytest.mark.parametrize("decay", [0.9, 0.99, 0.999, 1.0, "learned", "input", "state"])
def test_an_average_is_never_out_of_scale(combine: str, decay: float | str):
    """Its variance falls from the first n-gram on: from 27 for products, from 91 for sums."""
    for length in (ORDER, 10, LONG):
        mean = sampled(length, combine=combine, normalized="exact", decay=decay).mean[-1]
        assert 1e-5 < float(mean) < 120


@pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
@pytest.mark.parametrize("decay", [0.99, 0.999, 0.9999])
def test_terms_with_a_factor_near_0_do_not_vanish(combine: str, decay: float):
    found = sampled(combine=combine, normalized=True, decay=decay)
    assert 0.01 < float(found.mean[-1]) < 3


def test_a_decay_that_would_make_every_term_0_is_refused():
    with pytest.raises(ArgumentError, match=r"factor 1 − λ = 0\. Use normalized="):
        nn.StringKernelRNN(3, 4, decay=1.0, normalized=True)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.5])
def test_states_that_are_divided_by_their_masses_have_unit_variance(decay: float):
    found = sampled(normalized="exact", decay=decay)
    assert ((found.mean - 1).abs() < found.error).all()


@pytest.mark.parametrize("combine", ["add", "add_exact"])
@pytest.mark.parametrize(
    ("normalized", "decay"),
    [(False, 0.0), (False, 0.5), (False, 0.9), (True, 0.0), (True, 0.5), (True, 0.9),
     ("exact", 0.0), ("exact", 0.5)],
)  # fmt: skip
def test_the_last_state_of_a_sum_has_unit_variance(combine, normalized, decay):
    found = sampled(combine=combine, normalized=normalized, decay=decay)
    assert abs(float(found.mean[-1]) - 1) < float(found.error[-1])


@pytest.mark.parametrize("decay", ["learned", "input", "state"])
def test_the_last_state_of_a_sum_with_spread_decays_has_unit_variance(decay):
    """Up to a fifth: slow units have not reached their limit, and gates vary with the input."""
    found = sampled(combine="add", decay=decay)
    assert abs(float(found.mean[-1]) - 1) < 0.2


@pytest.mark.parametrize("decay", [0.2, 0.7])
def test_the_tokens_of_a_sum_contribute_the_energy_of_their_responses_equally(decay: float):
    """Token k passes m = n − k further decays, with the response C(t, m) λ^{t−m}."""
    n, moments = 4, fixed_moments(torch.tensor([decay], dtype=torch.float64))
    deviations = token_deviations(StringChain(n, "add"), moments)
    for k, deviation in enumerate(deviations, start=1):
        m = n - k
        energy = sum(math.comb(t, m) ** 2 * decay ** (2 * (t - m)) for t in range(m, 300))
        assert math.isclose(float(deviation) ** 2 * energy, 1 / n, rel_tol=1e-9)


def test_a_decay_of_one_has_unit_variance_after_a_hundred_steps():
    """Var c_1[t] = t (1 − LONGEST²), which has no limit."""
    found = sampled(100, decay=1.0)
    assert abs(float(found.mean[0]) - 1) < float(found.error[0])


def test_memories_of_a_gate_and_a_learned_decay_are_spread():
    learned = nn.StringKernelRNN(3, 50, decay="learned").decay_gate()
    gate = nn.StringKernelRNN(3, 50).decay_gate()
    assert isinstance(learned, Tensor)
    assert isinstance(gate, dict)
    even = (torch.arange(50) + 0.5) / 50
    torch.testing.assert_close(learned.sort().values, even)
    torch.testing.assert_close(torch.sigmoid(gate["bias"]).sort().values, even)
