r"""Which oscillations a classifier of signals goes by: their frequencies, and the channels' lags.

A filter alone does not say it, since units share the work. Both answers here are got by asking the
whole classifier about changed signals, so they hold for any model of windows (B, C, T).

    z_c = analytic signal of channel c in a band,    x_c = Re z_c + rest
    d(b) = margin(x) - margin(rest)                              what the band b is good for
    Q_cd = E[(margin_k(x') - mean) <z'_c, z'_d> / |z'_c||z'_d|],     z'_c = e^{i theta_c} z_c

with theta_c uniform and independent: whatever phases the channels had against each other is gone,
so Q is what the model goes by and not what the signals have. The phases of its leading eigenvector
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
    """What each band is good for.

    Attributes:
        frequencies: Middles of the bands in Hz ``(F,)``.
        loss: By how much the margin of the true class falls without a band ``(F,)``, in the mean.
    """

    frequencies: Tensor
    loss: Tensor

    @property
    def center(self) -> float:
        """Mean frequency in Hz, weighted by the losses of at least half of the largest."""
        weight = torch.where(self.loss >= self.loss.max() / 2, self.loss, 0.0)
        return float((weight * self.frequencies).sum() / weight.sum())


class PhaseLags(NamedTuple):
    """Which lags speak for a class.

    Attributes:
        lags: By how many degrees each channel runs behind the first ``(C,)``, from -180 to 180.
        weights: By how much each channel has a part in it ``(C,)``; their squares sum to 1,
            or to 0 without any evidence.
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
    """Take out one band after the other, and see what it costs.

    Args:
        classify: The classifier: windows to logits.
        signals: Windows ``(N, C, T)``, as it is given them.
        labels: Their classes ``(N,)``.
        sampling_rate: In Hz.
        width: Of a band in Hz; at least 1 / the seconds of a window.
        highest: The last band ends here; by default at half the sampling rate.

    Raises:
        ShapeError: If shapes do not fit.
        ArgumentError: If a rate or width is out of range.
    """
    _check(signals, sampling_rate, width)
    if labels.shape != signals.shape[:1]:
        raise ShapeError("labels", labels.shape, f"one of each window, ({len(signals)},)")
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
    """Find the lags between channels that speak most for a class, in a band.

    Args:
        classify: The classifier: windows to logits.
        signals: Windows ``(N, C, T)``, as it is given them, of any class.
        label: The class.
        frequency: Middle of the band in Hz.
        sampling_rate: In Hz.
        width: Of the band in Hz.
        repeats: How often each window is turned at random.
        seed: Of these turns.

    Raises:
        ShapeError: If shapes do not fit.
        ArgumentError: If a rate, width or count is out of range.
    """
    _check(signals, sampling_rate, width)
    if repeats < 1:
        raise ArgumentError("repeats", repeats, "a whole number from 1 on")
    band = _band(signals, frequency, width, sampling_rate)
    rest = signals - band.real
    generator = torch.Generator().manual_seed(seed)
    labels = torch.full((len(signals),), label, device=signals.device)
    channels = signals.shape[1]
    evidence = torch.zeros(channels, channels, dtype=torch.complex128)
    for _ in range(repeats):
        turn = torch.rand(len(signals), channels, 1, generator=generator).to(signals.device)
        turned = band * torch.exp(2j * math.pi * turn)
        with torch.no_grad():
            margin = _margin(classify((rest + turned.real).to(signals.dtype)), labels).double()
        unit = turned / turned.norm(dim=2, keepdim=True).clamp(min=1e-30)
        against = torch.einsum("bct,bdt->bcd", unit, unit.conj()).to(torch.complex128)
        weight = (margin - margin.mean()).to(torch.complex128)
        evidence += torch.einsum("b,bcd->cd", weight, against).cpu() / (repeats * len(signals))
    return _of_evidence(evidence.fill_diagonal_(0))


def combined_lags(found: Sequence[PhaseLags]) -> PhaseLags:
    r"""Put together what several models say of one class.

    .. math::
        Q = \frac{1}{n} \sum_{i=1}^n Q_i / \|Q_i\|

    so every model counts alike, however large its margins are; one without any evidence has no say.

    Args:
        found: Of each model, by `phase_lags` for the same class and channels.

    Raises:
        ArgumentError: If there is none.
        ShapeError: If they are of different numbers of channels.
    """
    if not found:
        raise ArgumentError("found", found, "the lags of one model or more")
    evidence = torch.zeros_like(found[0].evidence)
    for one in found:
        if one.evidence.shape != evidence.shape:
            expected = f"{tuple(evidence.shape)}, as that of the first model"
            raise ShapeError("evidence", one.evidence.shape, expected)
        evidence += one.evidence / one.evidence.norm().clamp(min=1e-30) / len(found)
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
    """Return by how much a class is above the others together: log p / (1 - p) ``(B,)``."""
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
