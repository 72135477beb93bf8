r"""Frequency bands and phase lags that a classifier of signals depends on, by perturbation.

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

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.requirements import check_integer

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
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own - others.logsumexp(1)


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
