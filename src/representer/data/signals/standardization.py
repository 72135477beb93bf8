"""Standardization: channels of mean 0 and deviation 1, so that subjects can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from representer.data.signals.recordings import Recordings
from representer.errors import ArgumentError

Kind = Literal["subject", "window", "training", "none"]
KINDS = ("subject", "window", "training", "none")


@dataclass(frozen=True)
class Standardization:
    """How channels are brought to mean 0 and deviation 1; a channel that is constant becomes 0.

    ``"subject"``: by all windows of the same subject, whatever their labels: electrodes and skulls
    differ, and power may differ between two windows of a subject. Nothing is taken from anyone
    else, so nothing passes between training and test; but a subject's recording must be complete
    before it is standardized. ``"window"``: by the window itself, so that all have equal power.
    ``"training"``: by the windows of training, whose figures are kept for all that comes later; the
    one kind that a live stream can use as it is. ``"none"``: not at all.

    Attributes:
        kind: One of the four.
        mean: Of each channel in training; empty of another kind.
        deviation: Likewise.
    """

    kind: Kind
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ArgumentError("kind", self.kind, "one of " + ", ".join(KINDS))

    @classmethod
    def fit(cls, kind: Kind, training: Recordings) -> Standardization:
        """Return a standardization; only ``"training"`` looks at the windows."""
        if kind != "training":
            return cls(kind)
        mean, deviation = _moments(training.signals)
        return cls(kind, tuple(mean.ravel().tolist()), tuple(deviation.ravel().tolist()))

    def apply(self, to: Recordings) -> Recordings:
        """Return the recordings standardized.

        Raises:
            ArgumentError: If they have other channels than those in training.
        """
        if self.kind == "none":
            return to
        if self.kind == "window":
            mean = to.signals.mean(axis=2, keepdims=True, dtype=np.float64)
            deviation = to.signals.std(axis=2, keepdims=True, dtype=np.float64)
            return replace(to, signals=_scaled(to.signals, mean, deviation))
        if self.kind == "training":
            if len(self.mean) != len(to.channels):
                expected = f"the {len(self.mean)} channels of training"
                raise ArgumentError("channels", to.channels, expected)
            moments = (np.asarray(part)[:, None] for part in (self.mean, self.deviation))
            return replace(to, signals=_scaled(to.signals, *moments))
        signals = np.empty_like(to.signals)
        for subject in np.unique(to.subjects):
            rows = to.subjects == subject
            signals[rows] = _scaled(to.signals[rows], *_moments(to.signals[rows]))
        return replace(to, signals=signals)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"kind": self.kind, "mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Standardization:
        """Return what `to_dict` described."""
        return cls(described["kind"], tuple(described["mean"]), tuple(described["deviation"]))


def _moments(signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each channel ``(C, 1)``."""
    mean = signals.mean(axis=(0, 2), dtype=np.float64)
    deviation = signals.std(axis=(0, 2), dtype=np.float64)
    return mean[:, None], deviation[:, None]


def _scaled(signals: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    is_constant = deviation <= 1e-6 * np.abs(mean)  # but for the rounding of float32
    scale = np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, deviation))
    return ((signals - mean) * scale).astype(np.float32)
