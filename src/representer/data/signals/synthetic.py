r"""Synthetic recordings of an oscillation, with classes that differ only in its coupling.

Every channel c of every window has a narrow band of equal power around the same frequency:

    x_c(t) = g_c Re( sqrt(k) e^{i l_c} z(t) + sqrt(1 - k) z_c(t) ) + noise

z is shared by all channels and z_c is that of one channel; both are complex Gaussian processes with
covariance exp(-(b tau)^2 / 2) e^{i omega tau}, b = 2 pi bandwidth. The class determines the
coupling k and the phase lags l_c, the subject the gains g_c. Band power carries no information
about the class; only the relative phases of channels do. After the toy data of Li et al., NeurIPS
2017, for SyncNet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from representer.checks import check_integer
from representer.data.signals.recordings import Recordings
from representer.errors import ArgumentError


@dataclass(frozen=True)
class Coupling:
    """The oscillation of a class.

    Attributes:
        name: Name of the class.
        frequency: ω/2π of the oscillation, in Hz; equal frequencies give all classes equal power.
        strength: k, the fraction of each channel's power that all channels share, in [0, 1].
        lags: l_c, the lag of each channel behind the shared process, in degrees.
    """

    name: str
    frequency: float
    strength: float
    lags: tuple[float, ...]


def default_couplings(channels: int = 4, frequency: float = 10.0) -> tuple[Coupling, ...]:
    """Return two classes: uncoupled channels, and channels coupled with successive lags of 40°.

    Args:
        channels: C.
        frequency: In Hz.
    """
    lags = tuple(40.0 * c for c in range(channels))
    return (
        Coupling("apart", frequency, 0.0, (0.0,) * channels),
        Coupling("in step", frequency, 0.9, lags),
    )


def synthetic_recordings(
    couplings: Sequence[Coupling] | None = None, *, subjects: int = 6, windows: int = 40,
    seconds: float = 1.0, sampling_rate: float = 100.0, bandwidth: float = 1.0, noise: float = 0.3,
    variation: float = 0.3, seed: int = 0,
) -> Recordings:  # fmt: skip
    """Draw recordings with a given frequency, phase lags and coupling.

    Args:
        couplings: One for each class; two classes of four channels by default.
        subjects: Number of subjects.
        windows: Number of windows per subject, divided equally among classes.
        seconds: Length of a window.
        sampling_rate: In Hz.
        bandwidth: Standard deviation of the spectrum of the oscillation in Hz.
        noise: Standard deviation of white noise; the oscillation has 1.
        variation: Standard deviation, over subjects, of the log gain of each channel.
        seed: The same seed gives the same recordings.

    Raises:
        ArgumentError: If a size, rate or coupling is out of range.
    """
    couplings = default_couplings() if couplings is None else tuple(couplings)
    _check(couplings, subjects, windows, seconds, sampling_rate)
    rng = np.random.default_rng(seed)
    channels, samples = len(couplings[0].lags), round(seconds * sampling_rate)
    time = np.arange(samples) / sampling_rate
    signals, labels, names = [], [], []
    for subject in range(subjects):
        gains = np.exp(rng.normal(0, variation, (channels, 1)))
        for window in range(windows):
            label = window % len(couplings)
            coupling = couplings[label]
            carrier = np.exp(2j * math.pi * coupling.frequency * time)
            envelopes = _envelopes(rng, channels + 1, samples, bandwidth / sampling_rate)
            lags = np.exp(-1j * np.deg2rad(coupling.lags))[:, None]
            share = coupling.strength
            mixed = math.sqrt(share) * lags * envelopes[0] + math.sqrt(1 - share) * envelopes[1:]
            clean = gains * (mixed * carrier).real
            signals.append(clean + rng.normal(0, noise, clean.shape))
            labels.append(label)
            names.append(f"subject {subject}")
    return Recordings(
        np.asarray(signals, dtype=np.float32),
        np.asarray(labels, dtype=np.int64),
        tuple(coupling.name for coupling in couplings),
        np.asarray(names),
        float(sampling_rate),
        tuple(f"ch{c}" for c in range(channels)),
    )


def _envelopes(rng: np.random.Generator, count: int, samples: int, width: float) -> np.ndarray:
    """Return complex Gaussian processes ``(count, samples)`` of a bandwidth in cycles per sample.

    White noise is smoothed with a Gaussian, circularly but with enough padding that the ends do not
    affect each other; the real part has variance 1.
    """
    reach = math.ceil(4 / (2 * math.pi * width)) if width else 0
    length = samples + 2 * reach
    frequencies = np.fft.fftfreq(length)
    gain = np.exp(-(frequencies**2) / (4 * width**2)) if width else (frequencies == 0) * 1.0
    gain *= math.sqrt(length / np.square(gain).sum())
    noise = rng.normal(size=(2, count, length))
    spectrum = np.fft.fft(noise[0] + 1j * noise[1], axis=-1)
    return np.fft.ifft(spectrum * gain, axis=-1)[:, :samples]


def _check(
    couplings: tuple[Coupling, ...], subjects: int, windows: int, seconds: float, rate: float
) -> None:
    if len(couplings) < 2 or len({len(coupling.lags) for coupling in couplings}) != 1:
        raise ArgumentError("couplings", couplings, "two or more with the same number of lags")
    if not couplings[0].lags:
        raise ArgumentError("couplings[0].lags", (), "a lag for each channel")
    for k, coupling in enumerate(couplings):
        if not 0 <= coupling.strength <= 1:
            raise ArgumentError(f"couplings[{k}].strength", coupling.strength, "0 to 1")
        if not 0 < coupling.frequency < rate / 2:
            expected = f"more than 0 and less than half the sampling rate, {rate / 2:g} Hz"
            raise ArgumentError(f"couplings[{k}].frequency", coupling.frequency, expected)
    for name, value in (("subjects", subjects), ("windows", windows)):
        check_integer(name, value)
    if not seconds * rate >= 2:
        raise ArgumentError("seconds", seconds, f"at least two samples, {2 / rate:g} s")
