"""Descriptions of wavelet filters: waveform, frequency, bandwidth and channel lags."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from representer.errors import ArgumentError, KindError
from representer.nn.recurrent.cells.syncnet import SyncNet
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine

_FFT_SIZE = 4096


@dataclass(frozen=True)
class WaveletCard:
    """One wavelet filter.

    Attributes:
        gate: The gate whose input is filtered.
        unit: The unit of the gate.
        frequency: ω/2π in Hz, below half the sampling rate.
        bandwidth: Width in Hz of its power spectrum at half maximum.
        amplitudes: |α| of each channel ``(C,)``.
        lags: Lag of each channel behind the first in the signal that maximizes the filter's
            output, in degrees from -180 to 180 ``(C,)``.
        times: Times of its samples in seconds ``(n,)``.
        waveform: The filter ``(C, n)``, oldest sample first.
        energy: Sum of its squared samples.
    """

    gate: str
    unit: int
    frequency: float
    bandwidth: float
    amplitudes: np.ndarray
    lags: np.ndarray
    times: np.ndarray
    waveform: np.ndarray
    energy: float


@dataclass(frozen=True)
class RecurringOscillation:
    """An oscillation that recurs in the wavelets of several models.

    Attributes:
        frequency: Mean in Hz, weighted by energy.
        spread: Standard deviation over the filters, in Hz.
        models: Fraction of the models that have such a filter.
        energy: Fraction of the energy of all filters considered.
    """

    frequency: float
    spread: float
    models: float
    energy: float


def wavelet_cards(layer: nn.Module, *, gate: str | None = None) -> list[WaveletCard]:
    r"""Describe the wavelets of a layer, in descending order of energy.

    A filter :math:`\alpha_c \cos(\omega t + \phi_c) e^{-\beta t^2}` has its largest
    output for a signal whose channel c lags channel 0 by :math:`\phi_0 - \phi_c`, plus half a turn
    if the amplitudes have different signs.

    Args:
        layer: A layer with wavelet filters; its first layer is described.
        gate: Describe only the filters of this gate, such as ``"candidate"``.

    Raises:
        KindError: If the layer has no wavelets.
        ArgumentError: If there is no such gate.

    References:
        Liang et al., NeurIPS 2019, (21), appendix A.
    """
    layer = _check_wavelets(layer)
    wavelets, filters = layer.wavelets(), layer.filters()
    if gate is not None and gate not in wavelets:
        raise ArgumentError("gate", gate, "one of " + ", ".join(wavelets))
    rate = _slot_rate(layer)
    cards = []
    for name in wavelets if gate is None else [gate]:
        alpha, omega, phi, _ = (part.double().cpu().numpy() for part in wavelets[name])
        waves = filters[name].double().cpu().numpy()[..., ::-1]  # (H, C, n), oldest first
        for unit, wave in enumerate(waves):
            folded = _fold(float(omega[unit]), rate)
            lags = phi[unit, 0] - phi[unit] + math.pi * (alpha[unit] * alpha[unit, 0] < 0)
            n = wave.shape[-1]
            cards.append(
                WaveletCard(
                    name,
                    unit,
                    abs(folded) / (2 * math.pi),
                    _bandwidth(wave, rate),
                    np.abs(alpha[unit]),
                    _degrees(lags if folded >= 0 else -lags),
                    np.arange(-(n // 2), n - n // 2) / rate,
                    wave,
                    float(np.square(wave).sum()),
                )
            )
    return sorted(cards, key=lambda card: -card.energy)


def wavelet_frequencies(layer: nn.Module, gate: str = "candidate") -> list[float]:
    """Return ω/2π in Hz of the wavelet of each unit, below half the sampling rate.

    Raises:
        KindError: If the layer has no wavelets.
    """
    layer = _check_wavelets(layer)
    omega = layer.wavelets()[gate].frequency.double().tolist()
    return [abs(_fold(each, _slot_rate(layer))) / (2 * math.pi) for each in omega]


def recurring_oscillations(
    models: Sequence[Sequence[WaveletCard]], *, top: int = 5, tolerance: float = 1.0
) -> list[RecurringOscillation]:
    """Find oscillations that recur in several models, in descending order of their number.

    Args:
        models: The result of `wavelet_cards` for each model.
        top: Number of filters of each model to consider, in descending order of energy.
        tolerance: Largest difference in Hz between neighboring frequencies of a group.

    Raises:
        ArgumentError: If there are no cards.
    """
    entries = [(c.frequency, c.energy, k) for k, cards in enumerate(models) for c in cards[:top]]
    if not entries:
        raise ArgumentError("models", models, "the cards of at least one model")
    entries.sort()
    groups = [[entries[0]]]
    for previous, entry in itertools.pairwise(entries):
        groups[-1].append(entry) if entry[0] - previous[0] <= tolerance else groups.append([entry])
    total = sum(energy for _, energy, _ in entries)
    rows = []
    for group in groups:
        frequencies, energies, members = (np.asarray(part) for part in zip(*group, strict=True))
        mean = float(np.average(frequencies, weights=energies))
        spread = math.sqrt(np.average((frequencies - mean) ** 2, weights=energies))
        fraction = float(energies.sum()) / total
        rows.append(RecurringOscillation(mean, spread, len(set(members)) / len(models), fraction))
    return sorted(rows, key=lambda row: (-row.models, -row.energy))


def _check_wavelets(layer: nn.Module) -> RecurrentKernelMachine | SyncNet:
    if not isinstance(layer, RecurrentKernelMachine | SyncNet):
        raise KindError("layer", type(layer).__name__, "a layer with filters='wavelet'")
    return layer


def _slot_rate(layer: RecurrentKernelMachine | SyncNet) -> float:
    """Return the sampling rate of the slots of a filter."""
    if isinstance(layer, SyncNet):
        return layer.convolution.sampling_rate or 1.0
    return (layer.bank.sampling_rate or 1.0) / layer.bank.dilation


def _fold(omega: float, rate: float) -> float:
    """Return the alias of an angular frequency between plus and minus half the sampling rate."""
    return math.remainder(omega, 2 * math.pi * rate)


def _bandwidth(wave: np.ndarray, rate: float) -> float:
    """Return the full width at half maximum of the power spectrum."""
    power = (np.abs(np.fft.rfft(wave, _FFT_SIZE)) ** 2).sum(0)
    peak = int(power.argmax())
    below = power < power[peak] / 2
    left = np.flatnonzero(below[:peak])
    right = np.flatnonzero(below[peak:])
    first = left[-1] + 1 if len(left) else 0
    last = peak + right[0] - 1 if len(right) else len(power) - 1
    return float(last - first) * rate / _FFT_SIZE


def _degrees(angles: np.ndarray) -> np.ndarray:
    """Convert angles to degrees from -180 to 180."""
    return np.degrees(np.angle(np.exp(1j * angles)))
