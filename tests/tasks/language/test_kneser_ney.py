"""The counting baseline against the formula, word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError
from representer.tasks.language.kneser_ney import DISCOUNT, kneser_ney


def by_the_formula(train, context, word, words, longest, n=None):
    """p(w | u) with dictionaries, recursively; an order that has not seen its context passes on."""
    n = longest if n is None else n
    if n == 0:
        return 1 / words
    grams = [tuple(train[i : i + n]) for i in range(len(train) - n + 1)]
    if n == longest:
        counted = grams
    else:
        counted = [g[1:] for g in {tuple(train[i : i + n + 1]) for i in range(len(train) - n)}]
    u = tuple(context[len(context) - n + 1 :]) if n > 1 else ()
    shorter = by_the_formula(train, context, word, words, longest, n - 1)
    if len(u) < n - 1:
        return shorter
    after = [g[-1] for g in counted if g[:-1] == u]
    if not after:
        return shorter
    seen = max(after.count(word) - DISCOUNT, 0)
    return (seen + DISCOUNT * len(set(after)) * shorter) / len(after)


texts = st.lists(st.integers(0, 3), min_size=2, max_size=25)


@given(texts, texts, st.integers(1, 4))
@settings(deadline=None)
def test_it_is_the_formula(train, test, order):
    longest = min(order, len(train), len(test))
    expected = [
        -math.log(by_the_formula(train, test[:t], test[t], 5, longest)) for t in range(1, len(test))
    ]
    found = kneser_ney(np.array(train), np.array(test), 5, order)
    assert found == pytest.approx(np.mean(expected), rel=1e-10)


@given(texts, st.integers(1, 3))
@settings(deadline=None)
def test_probabilities_sum_to_one(train, order):
    train = np.array(train)
    context = train[:3]
    each = [kneser_ney(train, np.array([*context, w]), 4, order) for w in range(4)]
    base = 0.0 if len(context) == 1 else kneser_ney(train, context, 4, order) * (len(context) - 1)
    chances = [math.exp(base - nats * len(context)) for nats in each]
    if min(order, len(train)) <= len(context):  # the same longest order in all of these texts
        assert sum(chances) == pytest.approx(1, rel=1e-10)


def test_an_order_that_cannot_be_numbered_is_refused():
    with pytest.raises(ArgumentError, match=r"order is 5; expected 1 to 4 with 10,000"):
        kneser_ney(np.zeros(9, int), np.zeros(9, int), 10_000, 5)
