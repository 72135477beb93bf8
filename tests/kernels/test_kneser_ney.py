"""Kneser-Ney smoothing against the formula, token by token; its counts against a string kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError
from representer.kernels import NgramKernel
from representer.kernels.token_counts import KneserNey, NgramTable

SIZE = 5
ENOUGH = [int(digit) for digit in "210000100020011023120121000123"]  # pairs that occur 1 to 4 times
texts = st.lists(st.integers(0, 3), min_size=2, max_size=40)  # the token 4 is never seen
orders = st.integers(1, 4)


def counted(train, n, longest):
    """c of the n-grams: occurrences, or distinct preceding tokens."""
    grams = [tuple(train[i : i + n]) for i in range(len(train) - n + 1)]
    if n == longest:
        return {g: grams.count(g) for g in grams}
    longer = {tuple(train[i : i + n + 1]) for i in range(len(train) - n)}
    return {g: sum(h[1:] == g for h in longer) for g in grams}


def discount(counts, c):
    """Chen and Goodman (26), or half the count where there are few n-grams."""
    n = [sum(own == k for own in counts.values()) for k in range(5)]
    k = min(c, 3)
    if k == 0 or 0 in n[1:]:
        return k / 2
    y = n[1] / (n[1] + 2 * n[2])
    return max(k - (k + 1) * y * n[k + 1] / n[k], y)


def by_the_formula(train, context, token, longest, n):
    """p_n(w | u) with dictionaries, recursively."""
    if n == 0:
        return 1 / SIZE
    shorter = by_the_formula(train, context, token, longest, n - 1)
    u = tuple(context[len(context) - n + 1 :]) if n > 1 else ()
    counts = counted(train, n, longest)
    after = {g[-1]: c for g, c in counts.items() if g[:-1] == u}
    if len(context) < n - 1 or not sum(after.values()):
        return shorter
    kept = sum(discount(counts, c) for c in after.values())
    own = after.get(token, 0)
    return (own - discount(counts, own) + kept * shorter) / sum(after.values())


@given(texts, texts, orders)
@settings(deadline=None)
@example(ENOUGH, [0, 1, 2, 4, 0, 1, 0, 3], 2)
def test_probabilities_are_those_of_the_formula(train, test, order):
    longest = min(order, len(train))
    expected = [by_the_formula(train, test[:t], w, longest, longest) for t, w in enumerate(test)]
    found = KneserNey(order).fit(np.array(train), SIZE).probabilities(np.array(test))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(texts, texts, orders)
@settings(deadline=None)
def test_distributions_sum_to_one_and_hold_each_probability(train, test, order):
    model, text = KneserNey(order).fit(np.array(train), SIZE), np.array(test)
    p = model.distributions(model.numbers(text))
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-12)
    assert (p > 0).all()
    own = model.probabilities(text)
    np.testing.assert_allclose(p[np.arange(len(text)), text], own, rtol=1e-12)


@given(texts, st.integers(2, 3))
@settings(deadline=None)
def test_counts_are_the_features_of_the_string_kernel(train, order):
    """The counts of the longest n-grams are those of `NgramKernel`; the sequences are numbered."""
    if len(train) < order:
        return
    model = KneserNey(order).fit(np.array(train), SIZE)
    features = NgramKernel(orders=(order,)).fit([train]).transform([train])
    assert sorted(model.tables_[-1].counts) == sorted(features.data)
    numbers = model.numbers(np.array(train))
    assert (numbers[:, -1] >= 0).all()  # each n-gram of the training text is known
    counts = model.tables_[-1].counts[numbers[-1, order:]]
    grams = [tuple(train[i : i + order]) for i in range(len(train) - order + 1)]
    assert counts.tolist() == [grams.count(g) for g in grams]


def test_any_order_can_be_numbered():
    """10,000 tokens to the fifth power exceed 64 bits."""
    text = np.random.default_rng(0).integers(0, 10_000, 3000)
    p = KneserNey(5).fit(np.tile(text, 2), 10_000).probabilities(text)
    assert p[5:].min() > 0.5  # half of both occurrences of a context is kept for other tokens
    with pytest.raises(ArgumentError, match="order is 17; expected an integer from 1 to 16"):
        KneserNey(17)


def tables_of(text, order=3):
    return [NgramTable(*t) for t in KneserNey(order).fit(np.array(text), SIZE).tables_]


def test_too_many_orders_are_refused():
    with pytest.raises(ValueError, match="3 orders of n-grams for 5 tokens"):
        KneserNey(2).restore(tables_of([0, 1, 2, 0]), SIZE)
    with pytest.raises(ValueError, match="0 orders"):
        KneserNey(2).restore([], SIZE)
