from __future__ import annotations

import pytest
import torch
from explain_by_hand import DECAYS, enumerate_ngrams, normal, random_decays, recurrence
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from representer.explain.string_parts import chain_states, chain_sums

COMBINES = pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
CASES = {"time": st.integers(1, 8), "order": st.integers(1, 4), "seed": st.integers(0, 2**16)}
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def case(time, order, seed, units=3):
    """Return products, decays, weights (1 or 1 - lam) and read-out weights of every step."""
    decay = random_decays(time, units, seed)
    weight = 1 - decay if seed % 2 else torch.ones_like(decay)
    p = normal(time, order, units, seed=seed)
    return p, decay, weight, normal(time, units, seed=seed + 1)


@COMBINES
@settings(deadline=None, max_examples=12)
@given(**CASES)
def test_states_and_masses_match_the_recurrence(combine, time, order, seed):
    p, decay, weight, _ = case(time, order, seed)
    for actual, expected in zip(
        chain_states(p, decay, weight, combine), recurrence(p, decay, weight, combine), strict=True
    ):
        assert_close(actual, expected, **EXACT)


@COMBINES
@settings(deadline=None, max_examples=12)
@given(**CASES)
def test_the_total_at_every_step_is_the_readout(combine, time, order, seed):
    p, decay, weight, read = case(time, order, seed)
    y = (read * recurrence(p, decay, weight, combine)[0][:, -1]).sum(0)
    totals = chain_sums(p, decay, weight, read, combine).total(p, decay, weight)
    assert_close(totals, y.expand(time, -1), **EXACT)


@COMBINES
@settings(deadline=None, max_examples=12)
@given(**CASES, data=st.data())
def test_the_parts_predict_the_readout_after_replacing_a_token_and_gate(
    combine, time, order, seed, data
):
    """The parts at a step do not depend on its own token and gates."""
    p, decay, weight, read = case(time, order, seed)
    t = data.draw(st.integers(0, time - 1))
    sums = chain_sums(p, decay, weight, read, combine)
    p[t], decay[t] = normal(order, 3, seed=seed + 2), data.draw(DECAYS)
    weight[t] = data.draw(DECAYS)
    y = (read * recurrence(p, decay, weight, combine)[0][:, -1]).sum(0)
    assert_close(sums.total(p, decay, weight)[t], y, **EXACT)


@settings(deadline=None, max_examples=12)
@given(**CASES)
def test_a_slot_contribution_is_the_sum_over_ngrams_with_the_token_in_that_slot(time, order, seed):
    p, decay, weight, read = case(time, order, seed, units=1)
    sums = chain_sums(p, decay, weight, read)
    contributions = (weight[:, None] * sums.slots * p)[..., 0]
    expected = torch.zeros_like(contributions)
    for i, contribution in enumerate_ngrams(
        p[..., 0], decay[:, 0], weight[:, 0], read[:, 0]
    ).items():
        for j, i_j in enumerate(i):
            expected[i_j, j] += contribution
    assert_close(contributions, expected, **EXACT)


@COMBINES
def test_slots_match_autograd(combine):
    p, decay, weight, read = case(7, 3, 5)
    p.requires_grad_()
    y = (read * recurrence(p, decay, weight, combine)[0][:, -1]).sum()
    (gradient,) = torch.autograd.grad(y, p)
    sums = chain_sums(p.detach(), decay, weight, read, combine)
    assert_close(weight[:, None] * sums.slots, gradient, **EXACT)
