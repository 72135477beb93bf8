"""Filters over steps: n-grams and wavelets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.functional import (
    ngram_product,
    ngram_product_definition,
    wavelet_factors,
    wavelet_filters,
    wavelet_filters_definition,
    wavelet_times,
)

sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 9), "n": st.integers(1, 4), "dilation": st.integers(1, 3),
        "seed": st.integers(0, 2**16),
    }
)  # fmt: skip
claim = settings(deadline=None, max_examples=20)


def draw(size):
    torch.manual_seed(size["seed"])
    x = torch.randn(size["T"], 2, 3, dtype=torch.float64)
    filters = torch.randn(4, 3, size["n"], dtype=torch.float64)
    reach = (size["n"] - 1) * size["dilation"]
    return x, filters, size["dilation"], torch.zeros(reach, 2, 3, dtype=torch.float64)


@claim
@given(size=sizes)
def test_the_product_matches_the_definition(size):
    x, filters, d, zeros = draw(size)
    product = ngram_product(torch.cat((zeros, x)), filters, d)
    torch.testing.assert_close(product, ngram_product_definition(x, filters, d))


@claim
@given(size=sizes)
def test_the_definition_is_a_causal_convolution(size):
    x, filters, d, zeros = draw(size)
    padded = torch.cat((zeros, x)).permute(1, 2, 0)
    expected = F.conv1d(padded, filters.flip(2), dilation=d).permute(2, 0, 1)
    torch.testing.assert_close(ngram_product_definition(x, filters, d), expected)


def test_steps_before_the_sequence_are_included():
    x, filters = torch.randn(6, 1, 2, dtype=torch.float64), torch.randn(3, 2, 3).double()
    whole = ngram_product_definition(x, filters)
    torch.testing.assert_close(ngram_product(x[2:], filters), whole[4:])


# Wavelet filters, L19 (21).


def test_the_times_of_40_samples_range_from_minus_20_to_19():
    times = wavelet_times(40, like=torch.zeros(1))
    assert times.flip(0).tolist() == list(range(-20, 20))  # oldest first
    assert wavelet_times(5, like=times).tolist() == [2, 1, 0, -1, -2]
    assert wavelet_times(1, like=times).tolist() == [0]


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_coefficients_and_factors_match_equation_21(units: int, channels: int, n: int):
    amplitude, phase = torch.randn(2, units, channels, dtype=torch.float64)
    frequency, decay = torch.rand(2, units, dtype=torch.float64)
    filters = wavelet_filters(amplitude, frequency, phase, decay, n)
    assert filters.shape == (units, channels, n)
    expected = wavelet_filters_definition(amplitude, frequency, phase, decay, n)
    torch.testing.assert_close(filters, expected, rtol=1e-12, atol=1e-12)
    mix, taps = wavelet_factors(amplitude, frequency, phase, decay, n)
    product = torch.einsum("roi,ron->oin", mix, taps)
    torch.testing.assert_close(product, expected, rtol=1e-12, atol=1e-12)
