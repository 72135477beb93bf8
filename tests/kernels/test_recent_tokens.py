"""Recent tokens against their sum, and against a string kernel of order 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError
from representer.kernels import StringKernel
from representer.kernels.token_counts import RecentTokens

SIZE = 4
texts = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=30)
decays = st.floats(0.01, 0.99)


def by_the_sum(text, decay):
    """s after each token ``(T, V)``."""
    return np.array(
        [
            [
                (1 - decay) * sum(decay ** (t - i) for i in range(t + 1) if text[i] == w)
                for w in range(SIZE)
            ]
            for t in range(len(text))
        ]
    )


@given(texts, decays)
@settings(deadline=None)
def test_frequencies_are_the_decayed_sums(text, decay):
    recent, tokens, expected = RecentTokens(decay), np.array(text), by_the_sum(text, decay)
    np.testing.assert_allclose(recent.read(tokens, np.zeros(SIZE)), expected, atol=1e-14)
    np.testing.assert_allclose(recent.after(tokens, np.zeros(SIZE)), expected[-1], atol=1e-14)
    own, mass = recent.of_text(tokens)
    before = np.concatenate([np.zeros((1, SIZE)), expected[:-1]])
    np.testing.assert_allclose(own, before[np.arange(len(text)), text], atol=1e-14)
    np.testing.assert_allclose(mass, before.sum(1), atol=1e-14)


@given(texts, texts, decays)
@settings(deadline=None)
def test_a_text_can_be_read_in_parts(one, two, decay):
    recent = RecentTokens(decay)
    whole = recent.read(np.array(one + two), np.zeros(SIZE))
    middle = recent.after(np.array(one), np.zeros(SIZE))
    np.testing.assert_allclose(recent.read(np.array(two), middle), whole[len(one) :], atol=1e-14)


def test_it_is_a_string_kernel_of_order_one():
    text, one_hot = [0, 2, 1, 2, 2, 3, 0], np.eye(SIZE)
    kernel = StringKernel(1, 0.7, trailing=True)
    expected = 0.3 * kernel([one_hot[text]], [one_hot[[w]] for w in range(SIZE)])[0]
    found = RecentTokens(0.7).after(np.array(text), np.zeros(SIZE))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("decay", [0, 1, -0.5, float("nan")])
def test_a_decay_out_of_range_is_refused(decay):
    with pytest.raises(ArgumentError, match=r"decay is .*; expected a number between 0 and 1"):
        RecentTokens(decay)
