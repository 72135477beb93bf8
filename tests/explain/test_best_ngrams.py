from __future__ import annotations

from math import comb

import pytest
import torch
from explain_by_hand import DECAYS, enumerate_ngrams, normal, random_decays
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.explain.ngrams import best_ngrams


def suffix_weights(decay, read):
    """Return the weight of c_n[t]: read_t + lam_{t+1} tail[t+1]."""
    tail = read.clone()
    for t in range(len(tail) - 2, -1, -1):
        tail[t] += decay[t + 1] * tail[t + 1]
    return tail


def check_largest(p, decay, read, k):
    """Check the k n-grams against the k largest of an enumeration."""
    w = torch.ones_like(decay)
    ngrams = enumerate_ngrams(p, decay, w, read)
    result = best_ngrams(p.tolist(), decay.tolist(), suffix_weights(decay, read).tolist(), k)
    assert len({term.positions for term in result}) == len(result) == min(k, len(ngrams))
    for positions, contribution in result:
        assert contribution == pytest.approx(ngrams[positions], rel=1e-12, abs=1e-300)
    largest = sorted(map(abs, ngrams.values()), reverse=True)[:k]
    assert [abs(term.contribution) for term in result] == pytest.approx(largest, rel=1e-12)


CASES = {
    "time": st.integers(1, 9), "order": st.integers(1, 4), "k": st.integers(1, 40),
    "seed": st.integers(0, 2**16),
}  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(**CASES, lam=DECAYS)
def test_the_best_match_an_enumeration_for_a_constant_decay(time, order, k, seed, lam):
    decay, read = torch.full((time,), lam, dtype=torch.float64), torch.zeros(time).double()
    read[-1] = 1
    check_largest(normal(time, order, seed=seed), decay, read, k)


@settings(deadline=None, max_examples=40)
@given(**CASES)
def test_the_best_match_an_enumeration_for_gates_and_any_readout(time, order, k, seed):
    p = normal(time, order, seed=seed)
    p[normal(time, order, seed=seed + 1) > 1] = 0
    decay = random_decays(time, 1, seed)[:, 0]
    check_largest(p, decay, normal(time, seed=seed + 2), k)


def test_a_sequence_shorter_than_the_order_has_no_ngrams():
    assert best_ngrams([[1.0, 1.0, 1.0]] * 2, [0.5] * 2, [1.0] * 2, 5) == []
    assert best_ngrams([], [], [], 5) == []


def test_all_ngrams_are_returned_if_k_exceeds_their_number():
    result = best_ngrams([[2.0, 3.0]] * 6, [1.0] * 6, [1.0] * 6, 10**6)
    assert len(result) == comb(6, 2)
    assert {term.contribution for term in result} == {6.0}


def test_ties_are_ordered_by_the_last_position():
    result = best_ngrams([[1.0]] * 5, [1.0] * 5, [1.0] * 5, 3)
    assert [term.positions for term in result] == [(4,), (3,), (2,)]


def test_a_zero_contribution_is_not_negative_zero():
    (result,) = best_ngrams([[-1.0]], [0.5], [0.0], 1)
    assert str(result.contribution) == "0.0"


def test_two_negative_factors_make_a_large_positive_contribution():
    """Partial products are ranked by absolute value."""
    rows = [[-9.0, 0.1], [1.0, 0.1], [0.1, -9.0]]
    best = best_ngrams(rows, [1.0] * 3, [1.0] * 3, 2)
    assert best == [((0, 2), 81.0), ((1, 2), -9.0)]
