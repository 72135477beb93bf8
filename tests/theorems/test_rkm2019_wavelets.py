"""L19 (21) and appendix A: wavelet filters, by the equations written out."""

from __future__ import annotations

import copy
import math

import pytest
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


def filters_by_hand(layer, gate, reverse=False):
    """(H, I, n) from the wavelets, slot s for the sample of s slots ago."""
    alpha, omega, phi, beta = layer.wavelets(reverse=reverse)[gate]
    n = layer.filter_length
    t = torch.tensor([n - 1 - n // 2 - s for s in range(n)], dtype=torch.float64)
    rate = 1 / layer.dilation  # omega and beta are per sample, t counts slots
    waves = torch.cos(omega[:, None, None] / rate * t + phi[..., None])
    return alpha[..., None] * waves * torch.exp(-beta[:, None, None] / rate**2 * t**2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("channels", "options"), [
    (12, {}), (12, {"dilation": 2}), (12, {"stride": 3}), (2, {}),
    (12, {"bidirectional": True}), (2, {"dilation": 2, "bidirectional": True}),
])  # fmt: skip
def test_21_channels_may_be_mixed_before_the_convolution(channels, options, dtype):
    """alpha cos(wt + phi) = alpha cos(phi) cos(wt) - alpha sin(phi) sin(wt), of either path.

    With many channels the library mixes them for the two waves of each filter first.
    """
    torch.manual_seed(0)
    layer = nn.CNN(channels, 3, bias=False, filters="wavelet", filter_length=20, dtype=dtype,
                   **options)  # fmt: skip
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith(("amplitude", "phase")):
                parameter.normal_()
    assert layer.wavelets_l0.is_separable == (channels == 12)
    double = copy.deepcopy(layer).double()
    x = torch.randn(30, 2, channels, dtype=dtype)
    output, stride, d = layer(x)[0], layer.stride, layer.dilation
    near = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    for reverse in range(1 + layer.bidirectional):
        filters = filters_by_hand(double, "candidate", bool(reverse))
        for place in range(len(output)):
            t = stride * (place + 1) - 1
            total = torch.zeros(2, 3, dtype=torch.float64)
            for s in range(20):
                sample = t + s * d if reverse else t - s * d
                if 0 <= sample < 30:
                    total += x[sample].double() @ filters[:, :, s].T
            found = output[place, :, 3 * reverse : 3 * reverse + 3]
            torch.testing.assert_close(found, total.tanh(), check_dtype=False, **near)
