r"""Which oscillations a classifier of signals goes by: their frequencies, and the channels' lags.

A filter alone does not say it, since units share the work. Both answers here are got by asking the
whole classifier about changed signals, so they hold for any model of windows (B, C, T).

    z_c = analytic signal of channel c in a band,    x_c = Re z_c + rest
    d(b) = margin(x) - margin(rest)                              what the band b is good for
    Q_cd = E[(margin_k(x') - mean) <z'_c, z'_d> / |z'_c||z'_d|],     z'_c = e^{i theta_c} z_c

with theta_c uniform and independent: whatever phases the channels had against each other is gone,
so Q describes the model and not the signals. The phases of its leading eigenvector
are the lags that speak for class k most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError

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
        """Return the mean frequency in Hz, weighted by the losses of at least half the largest."""
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
    """Remove each frequency band in turn, and measure the effect on the classifier.

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
    middles = width * torch.arange(1, count + 1, dtype=torch.float64)
    with torch.no_grad():
        whole = _margin(classify(signals), labels).mean()
        losses = [
            whole
            - _margin(
                classify(signals - _band(signals, f, width, sampling_rate).real), labels
            ).mean()
            for f in middles.tolist()
        ]
    return BandImportance(middles, torch.stack(losses).double().cpu())


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
    if repeats < 1:
        raise ArgumentError("repeats", repeats, "a positive integer")
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
        against = torch.einsum("bct,bdt->bcd", unit, unit.conj()).to(torch.complex128)
        weight = (margin - margin.mean()).to(torch.complex128)
        evidence += torch.einsum("b,bcd->cd", weight, against).cpu() / (repeats * len(signals))
    return _of_evidence(evidence.fill_diagonal_(0))


def combined_lags(models: Sequence[PhaseLags]) -> PhaseLags:
    r"""Put together what several models say of one class.

    .. math::
        Q = \frac{1}{n} \sum_{i=1}^n Q_i / \|Q_i\|

    so every model counts alike, however large its margins are; one without any evidence has no say.

    Args:
        models: The result of `phase_lags` for each model, for the same class and channels.

    Raises:
        ArgumentError: If the list is empty.
        ShapeError: If the numbers of channels differ.
    """
    if not models:
        raise ArgumentError("models", models, "the lags of at least one model")
    evidence = torch.zeros_like(models[0].evidence)
    for one in models:
        if one.evidence.shape != evidence.shape:
            expected = f"{tuple(evidence.shape)}, as that of the first model"
            raise ShapeError("evidence", one.evidence.shape, expected)
        evidence += one.evidence / one.evidence.norm().clamp(min=1e-30) / len(models)
    return _of_evidence(evidence)


def _of_evidence(evidence: Tensor) -> PhaseLags:
    leading = torch.linalg.eigh(evidence).eigenvectors[:, -1] * evidence.any()
    lags = 0.0 - torch.rad2deg(torch.angle(leading * leading[0].conj()))  # 0 - 0 is not -0
    return PhaseLags(lags, leading.abs(), evidence)


def _band(signals: Tensor, middle: float, width: float, rate: float) -> Tensor:
    """Return the analytic signal of a band ``(N, C, T)``; its real part is the band itself."""
    frequencies = torch.fft.fftfreq(signals.shape[2], 1 / rate, device=signals.device)
    inside = (frequencies >= middle - width / 2) & (frequencies < middle + width / 2)
    return 2 * torch.fft.ifft(torch.fft.fft(signals) * inside)


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log odds of a class, log p / (1 - p) ``(B,)``."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own - others.logsumexp(1)


def _check(signals: Tensor, rate: float, width: float) -> None:
    if signals.dim() != 3 or not signals.is_floating_point():
        raise ShapeError("signals", signals.shape, "numbers (windows, channels, samples)")
    if not 0 < rate < math.inf:
        raise ArgumentError("sampling_rate", rate, "a positive number of Hz")
    finest = rate / signals.shape[2]
    if not finest <= width * (1 + 1e-9) < rate / 2:
        expected = f"{finest:g} Hz, one over the length of a window, to half the sampling rate"
        raise ArgumentError("width", width, expected)
