"""Read, resample and cut the recordings of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals import (
    Recordings,
    cut,
    read_recordings,
    resampled,
    synthetic_recordings,
)
from representer.errors import ArgumentError, DataError
from representer.printable import say
from representer.tasks.signal.signal_config import SignalConfig, SignalReading
from representer.tasks.signal.signal_folds import subjects_of
from representer.tasks.signal.signal_loso import digest_of

DEMO_SOURCE = "synthetic recordings"
_DEMO_SUBJECTS, _DEMO_WINDOWS, _DEMO_SECONDS = 6, 60, 2.0


@dataclass(frozen=True)
class SignalData:
    """Prepared recordings, not standardized.

    Attributes:
        recordings: At the sampling rate and the window length of the run.
        source: Path of the file, or a description.
        digest: Digest of the recordings.
        report: Statistics for details.json.
    """

    recordings: Recordings
    source: str
    digest: str
    report: dict[str, Any]


def prepare(config: SignalConfig) -> SignalData:
    """Read the recordings of a run.

    Raises:
        ArgumentError: If no data are named.
        DataError: If they cannot be used; the message names file and subject.
    """
    if not config.demo and config.data is None:
        raise ArgumentError("data", None, "a file of recordings, or --demo")
    given = demo_recordings(config.seed) if config.demo else _read(config.data, config.reading)
    source = DEMO_SOURCE if config.demo else str(config.data)
    made = at_rate(given, config.resample or given.sampling_rate, source)
    if config.window_seconds:
        made = cut(made, config.window_seconds, file=source)
    _check_steps(made, config, source)
    single = given.one_class_subjects()
    if single:
        say(f"{source}: {_single(single)}; their accuracies are less informative")
    if config.standardize == "subject" and set(single) == set(subjects_of(made)):
        say("--standardize subject removes the differences between such subjects; "
            "window and training do not")  # fmt: skip
    report = {
        "source": source,
        "windows": len(made),
        "given_windows": len(given),
        "seconds": made.seconds,
        "given_seconds": given.seconds,
        "sampling_rate": made.sampling_rate,
        "given_sampling_rate": given.sampling_rate,
        "channels": list(made.channels),
        "classes": dict(zip(made.classes, np.bincount(made.labels).tolist(), strict=True)),
        "subjects": {s: int((made.subjects == s).sum()) for s in subjects_of(made)},
        "one_class_subjects": single,
    }
    return SignalData(made, source, digest_of(made), report)


def demo_recordings(seed: int) -> Recordings:
    """Return the recordings of the demo: classes differ in phase, not in power."""
    return synthetic_recordings(
        subjects=_DEMO_SUBJECTS, windows=_DEMO_WINDOWS, seconds=_DEMO_SECONDS, seed=seed
    )


def read_like(
    path: str | Path,
    reading: SignalReading,
    channels: tuple[str, ...],
    sampling_rate: float,
    samples: int,
    *,
    is_labeled: bool = True,
) -> Recordings:
    """Read recordings for a trained model, and convert them to the format of training.

    Channels are reordered and unknown ones dropped; recordings are resampled and longer windows are
    cut where necessary, with a notice.

    Args:
        path: The file.
        reading: How to read it.
        channels: Channels of the model.
        sampling_rate: Sampling rate of the model.
        samples: Samples of a window of the model.
        is_labeled: Whether labels are required; otherwise they may be missing or all equal.

    Raises:
        DataError: If a channel is missing, windows are too short, or the file cannot be used.
    """
    given = _read(path, reading, is_labeled=is_labeled)
    if left_out := [name for name in given.channels if name not in channels]:
        say(f"{path}: the channels {', '.join(left_out)} are unknown to the model and ignored")
    made = at_rate(given.in_order(channels, file=path), sampling_rate, path)
    seconds = samples / sampling_rate
    if made.signals.shape[2] != samples:
        before = len(made)
        made = cut(made, seconds, file=path)
        say(f"{path}: {before} windows of {given.seconds:g} s are cut into {len(made)} of "
            f"{seconds:g} s, as in training")  # fmt: skip
    return made


def at_rate(recordings: Recordings, sampling_rate: float, source: str | Path) -> Recordings:
    """Return the recordings at a sampling rate, resampled with a notice if necessary."""
    if recordings.sampling_rate == sampling_rate:
        return recordings
    say(f"{source}: resampled from {recordings.sampling_rate:g} Hz to {sampling_rate:g} Hz")
    return resampled(recordings, sampling_rate)


def with_labels_of(
    recordings: Recordings, classes: tuple[str, ...], file: str | Path
) -> Recordings:
    """Return the recordings with labels encoded by the classes of a model.

    Raises:
        DataError: If a class is unknown to the model.
    """
    unknown = [name for name in recordings.classes if name not in classes]
    if unknown:
        raise DataError(
            f"the class {', '.join(unknown)} is unknown to the model; its classes are "
            f"{', '.join(classes)}",
            file=file,
            fix="Remove its windows, or train with them.",
        )
    places = np.asarray([classes.index(name) for name in recordings.classes])
    return replace(recordings, labels=places[recordings.labels], classes=classes)


def _read(
    path: str | Path | None, reading: SignalReading, *, is_labeled: bool = True
) -> Recordings:
    assert path is not None
    return read_recordings(
        path,
        events=reading.names,
        start=reading.event_start or 0.0,
        seconds=reading.event_seconds,
        is_labeled=is_labeled,
    )


def _check_steps(recordings: Recordings, config: SignalConfig, source: str) -> None:
    samples = recordings.signals.shape[2]
    if samples < config.stride:
        raise DataError(
            f"window 0 of subject {recordings.subjects[0]} has {samples} samples, fewer than the "
            f"{config.stride} of one step",
            file=source,
            fix="Use longer windows or a smaller --stride.",
        )


def _single(subjects: list[str]) -> str:
    named = ", ".join(subjects[:5]) + (", …" if len(subjects) > 5 else "")
    verb = "has" if len(subjects) == 1 else "have"
    return f"{'subject' if len(subjects) == 1 else 'subjects'} {named} {verb} windows of one class"
