"""L19 (21) and appendix A: wavelet filters, by the equations written out."""

from __future__ import annotations

import math

import torch

from representer import nn


def test_21_the_filters_of_a_gate_are_wavelets_over_the_channels():
    """x̃_kc(t) = α_kc cos(ω_k t + φ_kc) exp(−β_k t²), t in samples around the window's middle."""
    layer = nn.RKMLSTM(3, 2, filters="wavelet", filter_length=6, dtype=torch.float64)
    for gate, filters in layer.filters().items():
        alpha, omega, phi, beta = layer.wavelets()[gate]
        for k in range(2):
            for channel in range(3):
                for place, t in enumerate(range(-3, 3)):  # oldest sample first
                    wave = math.cos(float(omega[k]) * t + float(phi[k, channel]))
                    expected = float(alpha[k, channel]) * wave * math.exp(-float(beta[k]) * t**2)
                    assert abs(float(filters[k, channel, 5 - place]) - expected) < 1e-12


def test_21_a_window_is_convolved_with_each_filter_and_summed_over_the_channels():
    """Without memory, h_t = tanh of the sum over channels and samples: the filters are a CNN's."""
    layer = nn.CNN(3, 2, bias=False, filters="wavelet", filter_length=5, dtype=torch.float64)
    x = torch.randn(8, 1, 3, dtype=torch.float64)
    filters, output = layer.filters()["candidate"], layer(x)[0]
    for t in range(8):
        total = torch.zeros(2, dtype=torch.float64)
        for s in range(min(5, t + 1)):
            total += filters[:, :, s] @ x[t - s, 0]
        torch.testing.assert_close(output[t, 0], total.tanh(), rtol=1e-10, atol=1e-12)


def test_appendix_a_the_parameters_do_not_grow_with_the_window():
    """2C + 2 numbers a filter, less one for the channel whose phase is 0, for every n."""
    for n in (5, 40):
        layer = nn.CNN(11, 30, bias=False, filters="wavelet", filter_length=n)
        assert sum(p.numel() for p in layer.parameters()) == 30 * (2 * 11 + 2 - 1)
