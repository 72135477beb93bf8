"""Cards of a layer's wavelets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from representer import nn
from representer.errors import ArgumentError, KindError
from representer.explain import (
    WaveletCard,
    recurring_oscillations,
    wavelet_cards,
    wavelet_frequencies,
)

RATE = 200.0


def layer(n=80, dilation=1):
    torch.manual_seed(0)
    return nn.RKMLSTM(
        3, 2, filters="wavelet", filter_length=n, sampling_rate=RATE, dilation=dilation
    ).double()


def set_wavelet(machine, hertz, lags, signs, beta, gate="candidate"):
    """Set frequency, lags in degrees, amplitudes and β in 1/s² of the first unit of a gate."""
    bank = machine.wavelets_l0
    row = list(machine.cell.gates).index(gate) * machine.hidden_size
    with torch.no_grad():
        bank.amplitude[row] = torch.tensor(signs).double()
        bank.frequency[row] = 2 * math.pi * hertz / RATE * bank.dilation
        bank.phase[row] = -torch.deg2rad(torch.tensor(lags[1:]).double())
        bank.raw_decay[row] = math.log(math.expm1(beta * (bank.dilation / RATE) ** 2))


def first_card(machine, gate="candidate"):
    (card,) = (card for card in wavelet_cards(machine, gate=gate) if card.unit == 0)
    return card


def test_the_card_describes_the_parameters_of_the_wavelet():
    machine = layer()
    set_wavelet(machine, 12.0, [0.0, 50.0, -120.0], [1.0, 2.0, 3.0], beta=200.0)
    card = first_card(machine)
    assert card.frequency == pytest.approx(12.0, abs=1e-9)
    assert wavelet_frequencies(machine)[0] == card.frequency
    np.testing.assert_allclose(card.lags, [0, 50, -120], atol=1e-9)
    np.testing.assert_allclose(card.amplitudes, [1, 2, 3])
    # half of |exp(-(w - w0)^2 / 4 beta)|^2, both sides; the window is long enough for beta
    expected = 2 * math.sqrt(2 * 200.0 * math.log(2)) / (2 * math.pi)
    assert card.bandwidth == pytest.approx(expected, abs=0.1)  # two points of the spectrum


def test_the_waveform_matches_the_formula():
    machine = layer(n=7)
    set_wavelet(machine, 12.0, [0.0, 50.0, -120.0], [1.0, 2.0, 3.0], beta=200.0)
    card = first_card(machine)
    np.testing.assert_allclose(card.times * RATE, np.arange(-3, 4), atol=1e-12)
    t, lag = card.times, np.deg2rad([[0.0], [50.0], [-120.0]])
    wave = np.cos(2 * math.pi * 12 * t - lag) * np.exp(-200 * t**2) * [[1], [2], [3]]
    np.testing.assert_allclose(card.waveform, wave, atol=1e-12)
    assert card.energy == pytest.approx(np.square(wave).sum())


def test_amplitudes_of_opposite_sign_add_180_degrees_to_the_lag():
    machine = layer()
    set_wavelet(machine, 12.0, [0.0, 50.0, -120.0], [-1.0, 2.0, -3.0], beta=200.0)
    card = first_card(machine)
    np.testing.assert_allclose(card.lags, [0, -130, -120], atol=1e-9)
    np.testing.assert_allclose(card.amplitudes, [1, 2, 3])


@pytest.mark.parametrize("hertz", [-12.0, RATE - 12.0])
def test_frequencies_above_half_the_rate_are_aliased_with_their_lags(hertz):
    machine = layer()
    set_wavelet(machine, hertz, [0.0, 50.0, -120.0], [1.0, 1.0, 1.0], beta=200.0)
    card = first_card(machine)
    assert card.frequency == pytest.approx(12.0, abs=1e-9)
    np.testing.assert_allclose(card.lags, [0, -50, 120], atol=1e-9)
    # the filter responds most to the signal with these lags
    t, lags = card.times, np.deg2rad(card.lags)[:, None]
    responses = [
        abs((card.waveform * np.exp(1j * (2 * math.pi * 12 * t - sign * lags))).sum())
        for sign in (1, -1)
    ]
    assert responses[0] > 1.5 * responses[1]


def test_cards_of_all_gates_are_ordered_by_energy():
    machine = layer()
    cards = wavelet_cards(machine)
    assert {(c.gate, c.unit) for c in cards} == {(g, u) for g in machine.cell.gates for u in (0, 1)}
    energies = [card.energy for card in cards]
    assert energies == sorted(energies, reverse=True)


def test_recurring_oscillations_are_counted_over_models():
    machines = [layer(), layer(), layer()]
    for machine, hertz in zip(machines, (10.0, 10.6, 30.0), strict=True):
        set_wavelet(machine, hertz, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], beta=200.0)
    models = [wavelet_cards(machine, gate="candidate") for machine in machines]
    rows = recurring_oscillations(models, top=1)
    assert [row.models for row in rows] == pytest.approx([2 / 3, 1 / 3])
    assert [row.frequency for row in rows] == pytest.approx([10.3, 30.0], abs=0.01)
    assert rows[0].spread == pytest.approx(0.3, abs=0.01)
    assert sum(row.energy for row in rows) == pytest.approx(1)
    assert len(recurring_oscillations(models, top=1, tolerance=0.5)) == 3


def with_frequency(hertz, energy):
    zero = np.zeros(1)
    return WaveletCard("candidate", 0, hertz, 1.0, zero, zero, zero, zero, energy)


def test_frequency_and_spread_are_weighted_by_energy_and_a_model_counts_once():
    one = [with_frequency(10.0, 6.0), with_frequency(11.0, 3.0)]
    other = [with_frequency(12.0, 3.0), with_frequency(30.0, 1.0), with_frequency(10.0, 0.5)]
    near, far = recurring_oscillations([one, other], top=2)
    assert (near.models, far.models) == (1.0, 0.5)
    assert near.frequency == pytest.approx((60 + 33 + 36) / 12)
    mean = near.frequency
    squares = 6 * (10 - mean) ** 2 + 3 * (11 - mean) ** 2 + 3 * (12 - mean) ** 2
    assert near.spread == pytest.approx(math.sqrt(squares / 12))
    assert (near.energy, far.energy) == pytest.approx((12 / 13, 1 / 13))


def test_the_bandwidth_includes_all_channels():
    machine = layer()
    set_wavelet(machine, 12.0, [0.0, 0.0, 0.0], [0.0, 2.0, 3.0], beta=200.0)
    expected = 2 * math.sqrt(2 * 200.0 * math.log(2)) / (2 * math.pi)
    assert first_card(machine).bandwidth == pytest.approx(expected, abs=0.1)


def test_layers_without_wavelets_are_rejected():
    with pytest.raises(KindError, match="filters='wavelet'"):
        wavelet_cards(nn.RKMLSTM(3, 2))
    with pytest.raises(KindError, match="a layer with filters='wavelet'"):
        wavelet_cards(torch.nn.LSTM(3, 2))
    with pytest.raises(ArgumentError, match="gate"):
        wavelet_cards(layer(), gate="attention")
    with pytest.raises(ArgumentError, match="at least one model"):
        recurring_oscillations([])
