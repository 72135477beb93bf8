"""Standardization of channels to mean 0 and standard deviation 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from representer.data.signals.recordings import Recordings
from representer.errors import ArgumentError

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
            moments = (np.asarray(part)[:, None] for part in (self.mean, self.deviation))
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
        if any(len(part) != expected for part in moments) or any(d < 0 for d in self.deviation):
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
