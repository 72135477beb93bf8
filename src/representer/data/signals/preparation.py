"""Recordings at another sampling rate, and in shorter windows."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from representer.data.signals.recordings import Recordings
from representer.errors import ArgumentError, DataError, MissingExtraError

LARGEST_FACTOR = 10_000  # of the two whole numbers whose ratio is that of the rates


def resampled(of: Recordings, sampling_rate: float) -> Recordings:
    """Return recordings at another sampling rate, the same seconds of them.

    What is faster than half of the lower rate is filtered out, forwards and backwards, so that
    phases stay. Each window is filtered on its own: resample before cutting.

    Args:
        of: The recordings.
        sampling_rate: In Hz.

    Raises:
        ArgumentError: If the rate is not positive, or its ratio to that of the recordings is not
            one of whole numbers up to 10,000.
    """
    if not 0 < sampling_rate < math.inf:
        raise ArgumentError("sampling_rate", sampling_rate, "a positive number of Hz")
    if sampling_rate == of.sampling_rate:
        return of
    try:
        from scipy.signal import resample_poly
    except ImportError as error:
        raise MissingExtraError("resampling", "scipy", "signals") from error
    ratio = Fraction(sampling_rate / of.sampling_rate).limit_denominator(LARGEST_FACTOR)
    is_near = math.isclose(ratio, sampling_rate / of.sampling_rate, rel_tol=1e-9)
    if not is_near or ratio.numerator > LARGEST_FACTOR:
        expected = f"a rate that is to {of.sampling_rate:g} Hz as whole numbers up to 10,000"
        raise ArgumentError("sampling_rate", sampling_rate, expected)
    up, down = ratio.numerator, ratio.denominator
    # an offset must not look like a step at both ends
    windows = [resample_poly(window, up, down, axis=1, padtype="mean") for window in of.signals]
    signals = np.asarray(windows, dtype=np.float32)
    return replace(of, signals=signals, sampling_rate=float(sampling_rate))


def cut(of: Recordings, seconds: float, *, file: str | Path | None = None) -> Recordings:
    """Cut every window into shorter ones, one after the other without overlap.

    What is left at the end of a window is left out. The pieces of window i are the rows
    ``i * pieces`` to ``(i + 1) * pieces - 1``, in the order of time.

    Args:
        of: The recordings.
        seconds: Length of the new windows, rounded to whole samples.
        file: Named in messages.

    Raises:
        ArgumentError: If that is less than one sample.
        DataError: If the windows are shorter.
    """
    samples = round(seconds * of.sampling_rate) if 0 < seconds < math.inf else 0
    if samples < 1:
        least = f"at least one sample, {1 / of.sampling_rate:g} s"
        raise ArgumentError("seconds", seconds, least)
    count, channels, length = of.signals.shape
    if length < samples:
        raise DataError(
            f"window 0 of subject {of.subjects[0]} is shorter than a window of {seconds:g} s: it "
            f"has {of.seconds:g} s, as have all",
            file=file,
            mend="Ask for shorter windows, or give longer recordings.",
        )
    pieces = length // samples
    kept = of.signals[:, :, : pieces * samples].reshape(count, channels, pieces, samples)
    return replace(
        of,
        signals=np.ascontiguousarray(kept.swapaxes(1, 2)).reshape(-1, channels, samples),
        labels=of.labels.repeat(pieces),
        subjects=of.subjects.repeat(pieces),
    )
