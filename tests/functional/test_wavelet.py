"""Wavelet filters, L19 (21)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.functional import (
    wavelet_factors,
    wavelet_filters,
    wavelet_filters_definition,
    wavelet_times,
)


def test_the_times_of_40_samples_range_from_minus_20_to_19():
    times = wavelet_times(40, like=torch.zeros(1))
    assert times.flip(0).tolist() == list(range(-20, 20))  # oldest first
    assert wavelet_times(5, like=times).tolist() == [2, 1, 0, -1, -2]
    assert wavelet_times(1, like=times).tolist() == [0]


@settings(deadline=None, max_examples=30)
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


def test_a_wavelet_responds_most_to_its_own_frequency():
    one = torch.ones(1, 1, dtype=torch.float64)
    frequency = torch.tensor([2 * math.pi * 10 / 200], dtype=torch.float64)  # 10 Hz at 200 Hz
    filters = wavelet_filters(one, frequency, 0 * one, torch.tensor([0.002]).double(), 40)[0, 0]
    spectrum = torch.fft.rfft(filters, 4000).abs()  # bins of 0.05 Hz
    assert float(spectrum.argmax()) * 200 / 4000 == pytest.approx(10, abs=0.5)


def test_gradients_reach_all_four_parameters():
    parts = (
        torch.randn(2, 3, dtype=torch.float64),
        torch.rand(2, dtype=torch.float64),
        torch.randn(2, 3, dtype=torch.float64),
        torch.rand(2, dtype=torch.float64),
    )
    for part in parts:
        part.requires_grad_()
    assert torch.autograd.gradcheck(lambda *p: wavelet_filters(*p, 5), parts)
