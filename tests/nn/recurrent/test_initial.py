"""The parts of start weights that all recurrent layers share."""

from __future__ import annotations

import math

import pytest
import torch

from representer.errors import ArgumentError
from representer.nn.recurrent.initial import (
    GATE_VARIANCE,
    LONGEST,
    check_initialization,
    draw,
    draw_gate,
    fixed_moments,
    gate_moments,
    spread_logits,
)


def test_memories_cover_all_lengths_up_to_twice_the_units():
    """The fraction of units that forget more slowly than in t steps falls like 1 / t."""
    units = 500
    steps = 1 / (1 - torch.sigmoid(spread_logits(units)))
    for t in (2, 5, 20, 100):
        assert abs(float((steps > t).double().mean()) - 1 / t) <= 1 / units
    torch.testing.assert_close(steps.max(), torch.tensor(2.0 * units, dtype=torch.float64))


def test_the_memories_are_in_random_order():
    torch.manual_seed(0)
    first, second = spread_logits(100), spread_logits(100)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sort().values, second.sort().values)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 3.0])
def test_moments_of_a_gate_match_a_large_sample(bias: float):
    n = 50_000
    factors = torch.sigmoid(bias + math.sqrt(GATE_VARIANCE) * torch.randn(n).double())
    found = gate_moments(torch.tensor([bias]))
    for moment, sample in zip(found, (factors**2, (1 - factors) ** 2), strict=True):
        error = 5 * float(sample.std()) / math.sqrt(n)  # five standard errors
        assert abs(float(moment) - float(sample.mean())) < error


def test_a_longer_memory_than_the_longest_has_its_moments():
    found = fixed_moments(torch.tensor([0.5, 1.0]))
    torch.testing.assert_close(found.square, torch.tensor([0.25, LONGEST**2]).double())


def test_rows_are_drawn_with_their_deviations():
    weight = torch.empty(3, 20_000)
    deviations = torch.tensor([0.1, 1.0, 4.0])
    draw(weight, deviations)
    # the standard error of a uniform distribution's deviation is 0.45 / √n, that is 0.3 %
    torch.testing.assert_close(weight.std(1), deviations, rtol=0.015, atol=0)
    assert (weight.abs().amax(1) <= math.sqrt(3) * deviations).all()


def test_a_gate_has_its_variance_for_any_sizes():
    weight, recurrent = torch.empty(4000, 30, dtype=torch.float64), torch.empty(4000, 90).double()
    draw_gate(weight, recurrent, None)
    variance = weight.square().sum(1).mean() + recurrent.square().sum(1).mean()
    torch.testing.assert_close(variance, torch.tensor(GATE_VARIANCE).double(), rtol=0.02, atol=0)


def test_an_unknown_initialization_is_refused():
    with pytest.raises(ArgumentError, match="initialization is 'xavier'; expected 'unit' or"):
        check_initialization("xavier")
