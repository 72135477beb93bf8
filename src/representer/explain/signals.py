"""Frequency bands and phase lags that a classifier of signals depends on, by perturbation.

Individual filters do not show this, since an output combines many units. Both measures apply the
whole classifier to modified signals, so they are defined for any model of windows (B, C, T).

    z_c = analytic signal of channel c in a band,    x_c = Re z_c + rest
    d(b) = margin(x) - margin(rest)                                  importance of band b
    Q_cd = E[(margin_k(x') - mean) <z'_c, z'_d> / |z'_c||z'_d|],     z'_c = e^{i theta_c} z_c

with theta_c uniform and independent, which removes the phase relations of the channels, so Q
describes the model and not the signals. The phases of its leading eigenvector are the lags that are
the strongest evidence for class k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.cells import SyncNet
from representer.nn.recurrent.machine import RecurrentKernelMachine

Classify = Callable[[Tensor], Tensor]  # (B, C, T) to logits (B, K)


class BandImportance(NamedTuple):
    """The importance of each frequency band for a classifier.

    Attributes:
        frequencies: Centers of the bands in Hz ``(F,)``.
        loss: Mean decrease of the margin of the true class without the band ``(F,)``.
    """

    frequencies: Tensor
    loss: Tensor

    @property
    def center(self) -> float:
        """Return the mean frequency in Hz, weighted by losses of at least half the largest."""
        weight = torch.where(self.loss >= self.loss.max() / 2, self.loss, 0.0)
        return float((weight * self.frequencies).sum() / weight.sum())


class PhaseLags(NamedTuple):
    """The phase lags that are evidence for a class.

    Attributes:
        lags: Lag of each channel behind the first, in degrees from -180 to 180 ``(C,)``.
        weights: Weight of each channel ``(C,)``; the squares sum to 1, or to 0 without any
            evidence.
        evidence: Q ``(C, C)``, complex Hermitian, 0 on its diagonal, in units of the margin.
    """

    lags: Tensor
    weights: Tensor
    evidence: Tensor


def band_importance(
    classify: Classify,
    signals: Tensor,
    labels: Tensor,
    sampling_rate: float,
    *,
    width: float = 1.0,
    highest: float | None = None,
) -> BandImportance:
    """Measure the effect on the classifier of removing each frequency band in turn.

    Args:
        classify: The classifier: windows to logits.
        signals: Windows ``(N, C, T)``, preprocessed for the classifier.
        labels: Their classes ``(N,)``.
        sampling_rate: Sampling rate in Hz.
        width: Width of a band in Hz; at least 1 / the duration of a window in seconds.
        highest: Upper end of the last band in Hz; half the sampling rate by default.

    Raises:
        ShapeError: If a shape is wrong.
        ArgumentError: If a rate or width is out of range.
    """
    _check(signals, sampling_rate, width)
    if labels.shape != signals.shape[:1]:
        raise ShapeError("labels", labels.shape, f"one label per window, ({len(signals)},)")
    highest = sampling_rate / 2 if highest is None else highest
    count = math.floor(highest / width - 0.5)
    centers = width * torch.arange(1, count + 1, dtype=torch.float64)
    samples = signals.shape[2]
    spectrum = torch.fft.rfft(signals)
    frequencies = torch.fft.rfftfreq(samples, 1 / sampling_rate, device=signals.device)
    with torch.no_grad():
        baseline = _margin(classify(signals), labels).mean()
        losses = []
        for center in centers.tolist():
            is_inside = (frequencies >= center - width / 2) & (frequencies < center + width / 2)
            rest = torch.fft.irfft(spectrum.masked_fill(is_inside, 0), n=samples)
            losses.append(baseline - _margin(classify(rest), labels).mean())
    return BandImportance(centers, torch.stack(losses).double().cpu())


def phase_lags(
    classify: Classify,
    signals: Tensor,
    label: int,
    frequency: float,
    sampling_rate: float,
    *,
    width: float = 4.0,
    repeats: int = 2,
    seed: int = 0,
) -> PhaseLags:
    """Find the lags between channels that are the strongest evidence for a class, in a band.

    Args:
        classify: The classifier: windows to logits.
        signals: Windows ``(N, C, T)`` of any class, preprocessed for the classifier.
        label: The class.
        frequency: Center of the band in Hz.
        sampling_rate: Sampling rate in Hz.
        width: Width of the band in Hz.
        repeats: Number of random phase shifts of each window.
        seed: Random seed of the phase shifts.

    Raises:
        ShapeError: If a shape is wrong.
        ArgumentError: If a rate, width or count is out of range.
    """
    _check(signals, sampling_rate, width)
    check_integer("repeats", repeats)
    band = _band(signals, frequency, width, sampling_rate)
    rest = signals - band.real
    generator = torch.Generator().manual_seed(seed)
    labels = torch.full((len(signals),), label, device=signals.device)
    channels = signals.shape[1]
    evidence = torch.zeros(channels, channels, dtype=torch.complex128)
    for _ in range(repeats):
        shift = torch.rand(len(signals), channels, 1, generator=generator).to(signals.device)
        shifted = band * torch.exp(2j * math.pi * shift)
        with torch.no_grad():
            margin = _margin(classify((rest + shifted.real).to(signals.dtype)), labels).double()
        unit = shifted / shifted.norm(dim=2, keepdim=True).clamp(min=1e-30)
        coherence = torch.einsum("bct,bdt->bcd", unit, unit.conj()).to(torch.complex128)
        weight = (margin - margin.mean()).to(torch.complex128)
        evidence += torch.einsum("b,bcd->cd", weight, coherence).cpu() / (repeats * len(signals))
    return _lags_from_evidence(evidence.fill_diagonal_(0))


def combined_lags(models: Sequence[PhaseLags]) -> PhaseLags:
    r"""Average the evidence of several models for one class.

    .. math::
        Q = \frac{1}{n} \sum_{i=1}^n Q_i / \|Q_i\|

    The normalization makes the weights of the models independent of the scale of their margins. A
    model whose evidence is zero is ignored.

    Args:
        models: The result of `phase_lags` for each model, for the same class and channels.

    Raises:
        ArgumentError: If the list is empty.
        ShapeError: If the numbers of channels differ.
    """
    if not models:
        raise ArgumentError("models", models, "the lags of at least one model")
    evidence = torch.zeros_like(models[0].evidence)
    for model in models:
        if model.evidence.shape != evidence.shape:
            expected = f"{tuple(evidence.shape)}, the shape for the first model"
            raise ShapeError("evidence", model.evidence.shape, expected)
        evidence += model.evidence / model.evidence.norm().clamp(min=1e-30) / len(models)
    return _lags_from_evidence(evidence)


def _lags_from_evidence(evidence: Tensor) -> PhaseLags:
    leading = torch.linalg.eigh(evidence).eigenvectors[:, -1] * evidence.any()
    lags = 0.0 - torch.rad2deg(torch.angle(leading * leading[0].conj()))  # 0 - 0 avoids -0
    return PhaseLags(lags, leading.abs(), evidence)


def _band(signals: Tensor, center: float, width: float, rate: float) -> Tensor:
    """Return the analytic signal of a band ``(N, C, T)``; its real part is the filtered signal."""
    frequencies = torch.fft.fftfreq(signals.shape[2], 1 / rate, device=signals.device)
    is_inside = (frequencies >= center - width / 2) & (frequencies < center + width / 2)
    return 2 * torch.fft.ifft(torch.fft.fft(signals) * is_inside)


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log odds of a class, log p / (1 - p) ``(B,)``."""
    logit = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return logit - others.logsumexp(1)


def _check(signals: Tensor, rate: float, width: float) -> None:
    if signals.dim() != 3 or not signals.is_floating_point():
        raise ShapeError(
            "signals", signals.shape, "a floating-point tensor (windows, channels, samples)"
        )
    if not 0 < rate < math.inf:
        raise ArgumentError("sampling_rate", rate, "a positive number of Hz")
    resolution = rate / signals.shape[2]
    if not resolution <= width * (1 + 1e-9) < rate / 2:
        expected = (
            f"{resolution:g} Hz, one over the duration of a window, to half the sampling rate"
        )
        raise ArgumentError("width", width, expected)


# Descriptions of wavelet filters: waveform, frequency, bandwidth and channel lags.

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
        alpha, omega, phi, _ = (p.double().cpu().numpy() for p in wavelets[name])
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

    Args:
        layer: A layer with wavelet filters; its first layer is described.
        gate: The gate whose input is filtered.

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
        frequencies, energies, members = (np.asarray(p) for p in zip(*group, strict=True))
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
