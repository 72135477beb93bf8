"""Resampling of recordings, and splitting into shorter windows."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from representer.data.signals.recordings import Recordings
from representer.errors import ArgumentError, DataError, MissingExtraError

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
