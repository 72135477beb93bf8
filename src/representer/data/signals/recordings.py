"""Recordings: multichannel windows with labels and subjects; resampled, cut, augmented, drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from representer.checks import check_integer
from representer.data.tables.files import listing
from representer.errors import ArgumentError, DataError, MissingExtraError


@dataclass(frozen=True)
class Recordings:
    """Windows of a multichannel signal.

    Attributes:
        signals: ``(N, C, T)``, float32, in the unit of the recording.
        labels: ``(N,)``, indices into ``classes``.
        classes: Names of the classes.
        subjects: ``(N,)``, the subject of each window, as text.
        sampling_rate: In Hz.
        channels: Names of the channels.
        notes: Remarks of the reader for the user.
    """

    signals: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    subjects: np.ndarray
    sampling_rate: float
    channels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.signals)

    @property
    def seconds(self) -> float:
        """Return the length of a window."""
        return self.signals.shape[2] / self.sampling_rate

    def take(self, rows: Any) -> Recordings:
        """Return the windows selected by indices or by a mask."""
        return replace(
            self, signals=self.signals[rows], labels=self.labels[rows],
            subjects=self.subjects[rows],
        )  # fmt: skip

    def in_order(self, channels: tuple[str, ...], *, file: str | Path | None = None) -> Recordings:
        """Return the recordings with the channels of a trained model, in its order.

        Raises:
            DataError: If a channel is missing.
        """
        missing = [name for name in channels if name not in self.channels]
        if missing:
            raise DataError(
                f"the channels {', '.join(missing)} are missing; the file has "
                f"{', '.join(self.channels)}",
                file=file,
                fix="The model was trained with them.",
            )
        order = [self.channels.index(name) for name in channels]
        return replace(self, signals=self.signals[:, order], channels=channels)

    def one_class_subjects(self) -> list[str]:
        """Return the subjects whose windows all belong to one class."""
        subjects = np.unique(self.subjects)
        return [str(s) for s in subjects if len(np.unique(self.labels[self.subjects == s])) == 1]


def recordings(
    signals: Any, labels: Any, subjects: Any, sampling_rate: Any, channels: Any = None, *,
    file: str | Path | None = None, is_labeled: bool = True,
) -> Recordings:  # fmt: skip
    """Create recordings from arrays, and check that they are consistent.

    Args:
        signals: ``(N, C, T)``, numbers.
        labels: ``(N,)``, of any type; the sorted distinct values are the classes.
        subjects: ``(N,)``, the subject of each window.
        sampling_rate: In Hz.
        channels: C names; ``ch0``, ``ch1``, … by default.
        file: The file, for messages.
        is_labeled: Require two classes; if False, the labels may be None.

    Raises:
        DataError: If shapes are inconsistent, a sample is not finite, the rate is not positive, a
            name is a duplicate, or there is only one class.
    """
    signals, subjects = np.asarray(signals), np.asarray(subjects)
    if labels is None and not is_labeled:
        labels = np.full(subjects.shape, "unknown")
    labels = np.asarray(labels)

    def error(problem: str, fix: str = "") -> DataError:
        return DataError(problem, file=file, fix=fix)

    if signals.dtype.kind not in "fiu" or signals.ndim != 3 or not signals.size:
        got = f"{signals.dtype} of shape {signals.shape}"
        fix = "Windows of one channel are X[:, None]." if signals.ndim == 2 else ""
        raise error(f"X is {got}; expected numbers (windows, channels, samples)", fix)
    if channels is None and signals.shape[1] > signals.shape[2]:
        got = "{1} channels of {2} samples".format(*signals.shape)
        fix = "Swap the axes of X, or give the names of the channels if there are so many."
        raise error(f"X has {got}; expected (windows, channels, samples)", fix)
    for name, array in (("y", labels), ("subject", subjects)):
        if array.shape != (len(signals),):
            raise error(
                f"{name} has shape {array.shape}; expected one entry per window, ({len(signals)},)"
            )
    rate = np.asarray(sampling_rate)
    if rate.size != 1 or rate.dtype.kind not in "fiu" or not 0 < float(rate.item()) < math.inf:
        raise error(f"fs is {sampling_rate!r}; expected the sampling rate, a positive number of Hz")
    names = _channel_names(channels, signals.shape[1], error)
    signals = signals.astype(np.float32)
    is_invalid = ~np.isfinite(signals).all(axis=2)
    if is_invalid.any():
        window, channel = (int(i) for i in np.argwhere(is_invalid)[0])
        raise error(
            f"window {window} of subject {subjects[window]!s} has samples that are not finite, in "
            f"channel {names[channel]}; {int(is_invalid.any(axis=1).sum())} windows have some",
            "Remove these windows or interpolate the samples.",
        )
    classes, numbers = np.unique(labels.astype(str), return_inverse=True)
    if is_labeled and len(classes) < 2:
        raise error(f"all labels are {str(classes[0])!r}; expected at least two classes")
    if 2 < len(classes) == len(labels):
        shown = listing([str(name) for name in classes], 3)
        problem = f"all labels differ: {shown}; expected classes of several windows"
        raise error(problem, "Models of signals predict classes; divide numbers into ranges.")
    return Recordings(
        signals, numbers.astype(np.int64), tuple(str(name) for name in classes),
        subjects.astype(str), float(rate.item()), names,
    )  # fmt: skip


def _channel_names(channels: Any, count: int, error: Any) -> tuple[str, ...]:
    if channels is None:
        return tuple(f"ch{k}" for k in range(count))
    names = tuple(str(name) for name in np.asarray(channels).reshape(-1))
    if len(names) != count:
        raise error(f"there are {len(names)} channel names for {count} channels")
    for name, occurrences in Counter(sorted(names)).items():
        if occurrences > 1:
            raise error(f"the channel {name} occurs {occurrences} times")
    return names


# Standardization of channels to mean 0 and standard deviation 1.

Kind = Literal["subject", "window", "training", "none"]
KINDS = ("subject", "window", "training", "none")


@dataclass(frozen=True)
class Standardization:
    """Scaling of channels to mean 0 and standard deviation 1; constant channels become 0.

    ``"subject"`` uses the moments of all windows of the same subject, regardless of their labels:
    it removes differences between electrodes and skulls, and keeps differences of power between the
    windows of a subject. Subjects are standardized separately, so nothing leaks from test to
    training, but the recording of a subject must be complete. ``"window"`` uses the moments of the
    window itself, so all windows have equal power. ``"training"`` uses the stored moments of the
    training windows; streaming needs this kind. ``"none"`` changes nothing.

    Attributes:
        kind: One of these four.
        mean: Mean of each channel in training; empty for other kinds.
        deviation: Standard deviation of each channel in training; empty for other kinds.
    """

    kind: Kind
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ArgumentError("kind", self.kind, "one of " + ", ".join(KINDS))

    @classmethod
    def fit(cls, kind: Kind, training: Recordings) -> Standardization:
        """Return a standardization; only ``"training"`` uses the windows."""
        if kind != "training":
            return cls(kind)
        mean, deviation = _moments(training.signals)
        return cls(kind, tuple(mean.ravel().tolist()), tuple(deviation.ravel().tolist()))

    def apply(self, recordings: Recordings) -> Recordings:
        """Standardize recordings.

        Raises:
            ArgumentError: If the number of channels differs from that in training.
        """
        if self.kind == "none":
            return recordings
        if self.kind == "window":
            mean = recordings.signals.mean(axis=2, keepdims=True, dtype=np.float64)
            deviation = recordings.signals.std(axis=2, keepdims=True, dtype=np.float64)
            return replace(recordings, signals=_scaled(recordings.signals, mean, deviation))
        if self.kind == "training":
            if len(self.mean) != len(recordings.channels):
                expected = f"the {len(self.mean)} channels of training"
                raise ArgumentError("channels", recordings.channels, expected)
            moments = (np.asarray(x)[:, None] for x in (self.mean, self.deviation))
            return replace(recordings, signals=_scaled(recordings.signals, *moments))
        signals = np.empty_like(recordings.signals)
        for subject in np.unique(recordings.subjects):
            rows = recordings.subjects == subject
            signals[rows] = _scaled(recordings.signals[rows], *_moments(recordings.signals[rows]))
        return replace(recordings, signals=signals)

    def require_channels(self, count: int) -> None:
        """Check the stored moments against a number of channels.

        Raises:
            ValueError: If their number differs, or a deviation is negative.
        """
        moments = self.mean, self.deviation
        expected = count if self.kind == "training" else 0
        if any(len(x) != expected for x in moments) or any(d < 0 for d in self.deviation):
            raise ValueError("the standardization does not match the channels")


def _moments(signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each channel ``(C, 1)``."""
    mean = signals.mean(axis=(0, 2), dtype=np.float64)
    deviation = signals.std(axis=(0, 2), dtype=np.float64)
    return mean[:, None], deviation[:, None]


def _scaled(signals: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    is_constant = deviation <= 1e-6 * np.abs(mean)  # up to float32 rounding errors
    scale = np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, deviation))
    return ((signals - mean) * scale).astype(np.float32)


# Resampling of recordings, and splitting into shorter windows.

LARGEST_FACTOR = 10_000  # of the two integers whose ratio is the ratio of the rates


def resampled(recordings: Recordings, sampling_rate: float) -> Recordings:
    """Return recordings of the same duration at another sampling rate.

    Frequencies above half of the lower rate are removed by a zero-phase filter. Each window is
    filtered separately, so resample before cutting.

    Args:
        recordings: The recordings.
        sampling_rate: In Hz.

    Raises:
        ArgumentError: If the rate is not positive, or its ratio to the rate of the recordings is
            not a ratio of integers up to 10,000.
    """
    if not 0 < sampling_rate < math.inf:
        raise ArgumentError("sampling_rate", sampling_rate, "a positive number of Hz")
    if sampling_rate == recordings.sampling_rate:
        return recordings
    try:
        from scipy.signal import resample_poly
    except ImportError as error:
        raise MissingExtraError("resampling", "scipy", "signals") from error
    ratio = Fraction(sampling_rate / recordings.sampling_rate).limit_denominator(LARGEST_FACTOR)
    is_near = math.isclose(ratio, sampling_rate / recordings.sampling_rate, rel_tol=1e-9)
    if not is_near or ratio.numerator > LARGEST_FACTOR:
        expected = f"a ratio of integers up to 10,000 times {recordings.sampling_rate:g} Hz"
        raise ArgumentError("sampling_rate", sampling_rate, expected)
    up, down = ratio.numerator, ratio.denominator
    # with zero padding, an offset would be a step at both ends
    windows = [
        resample_poly(window, up, down, axis=1, padtype="mean") for window in recordings.signals
    ]
    signals = np.asarray(windows, dtype=np.float32)
    return replace(recordings, signals=signals, sampling_rate=float(sampling_rate))


def cut(recordings: Recordings, seconds: float, *, file: str | Path | None = None) -> Recordings:
    """Split every window into consecutive shorter windows without overlap.

    The remainder at the end of a window is dropped. The pieces of window i are the rows
    ``i * pieces`` to ``(i + 1) * pieces - 1``, in temporal order.

    Args:
        recordings: The recordings.
        seconds: Length of the new windows, rounded to whole samples.
        file: The file, for messages.

    Raises:
        ArgumentError: If the new windows are shorter than one sample.
        DataError: If the recorded windows are shorter than the new ones.
    """
    samples = round(seconds * recordings.sampling_rate) if 0 < seconds < math.inf else 0
    if samples < 1:
        expected = f"at least one sample, {1 / recordings.sampling_rate:g} s"
        raise ArgumentError("seconds", seconds, expected)
    count, channels, length = recordings.signals.shape
    if length < samples:
        raise DataError(
            f"window 0 of subject {recordings.subjects[0]}, like all windows, has "
            f"{recordings.seconds:g} s and is shorter than a window of {seconds:g} s",
            file=file,
            fix="Choose shorter windows, or provide longer recordings.",
        )
    pieces = length // samples
    kept = recordings.signals[:, :, : pieces * samples].reshape(count, channels, pieces, samples)
    return replace(
        recordings,
        signals=np.ascontiguousarray(kept.swapaxes(1, 2)).reshape(-1, channels, samples),
        labels=recordings.labels.repeat(pieces),
        subjects=recordings.subjects.repeat(pieces),
    )


# Augmentation of training windows that preserves oscillations and phase lags.

GAIN = 0.2  # standard deviation of a channel's log gain, similar to that of electrodes
NOISE = 0.3  # standard deviation of white noise; a standardized channel has 1


def augmented(signals: Tensor) -> Tensor:
    """Return windows with random signs, circular shifts in time, gains and noise.

    All channels of a window have the same sign, and all windows the same circular shift, so the
    lags between channels stay the same.

    Args:
        signals: Standardized windows ``(B, C, T)``.

    Returns:
        The augmented windows, drawn with the global generator of torch.
    """
    windows, channels, samples = signals.shape
    options = {"device": signals.device, "dtype": signals.dtype}
    signs = torch.randint(2, (windows, 1, 1), device=signals.device) * 2 - 1
    gains = torch.exp(GAIN * torch.randn(windows, channels, 1, **options))
    shifted = torch.roll(signals, int(torch.randint(samples, ())), dims=2)
    return shifted * signs * gains + NOISE * torch.randn(windows, channels, samples, **options)


# Synthetic recordings of an oscillation, with classes that differ only in its coupling.
#
# Every channel c of every window has a narrow band of equal power around the same frequency:
#
#     x_c(t) = g_c Re( sqrt(k) e^{i l_c} z(t) + sqrt(1 - k) z_c(t) ) + noise
#
# z is shared by all channels and z_c is of one channel; both are complex Gaussian processes with
# covariance exp(-(b tau)^2 / 2) e^{i omega tau}, b = 2 pi bandwidth. The class determines the
# coupling k and the phase lags l_c, the subject the gains g_c. Band power carries no information
# about the class; only the relative phases of channels do. After the toy data of Li et al., NeurIPS
# 2017, for SyncNet.


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
        np.asarray(signals, dtype=np.float32), np.asarray(labels, dtype=np.int64),
        tuple(coupling.name for coupling in couplings), np.asarray(names), float(sampling_rate),
        tuple(f"ch{c}" for c in range(channels)),
    )  # fmt: skip


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
