"""Recordings: multichannel windows at one sampling rate, each with a label and a subject."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.tables.suggest import listing
from representer.errors import DataError


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
            self,
            signals=self.signals[rows],
            labels=self.labels[rows],
            subjects=self.subjects[rows],
        )

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
    signals: Any,
    labels: Any,
    subjects: Any,
    sampling_rate: Any,
    channels: Any = None,
    *,
    file: str | Path | None = None,
    is_labeled: bool = True,
) -> Recordings:
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
        found = f"{signals.dtype} of shape {signals.shape}"
        fix = "Windows of one channel are X[:, None]." if signals.ndim == 2 else ""
        raise error(f"X is {found}; expected numbers (windows, channels, samples)", fix)
    if channels is None and signals.shape[1] > signals.shape[2]:
        found = "{1} channels of {2} samples".format(*signals.shape)
        fix = "Swap the axes of X, or give the names of the channels if there are so many."
        raise error(f"X has {found}; expected (windows, channels, samples)", fix)
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
        signals,
        numbers.astype(np.int64),
        tuple(str(name) for name in classes),
        subjects.astype(str),
        float(rate.item()),
        names,
    )


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
