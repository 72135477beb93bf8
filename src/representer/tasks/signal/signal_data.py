"""The recordings of a run: read, resampled, cut, and told about where something was done."""

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
from representer.tasks.signal.signal_config import SignalConfig, SignalReading
from representer.tasks.signal.signal_folds import subjects_of
from representer.tasks.signal.signal_loso import digest_of
from representer.tasks.training.progress import say

DEMO_SOURCE = "synthetic recordings"
_DEMO_SUBJECTS, _DEMO_WINDOWS, _DEMO_SECONDS = 6, 60, 2.0


@dataclass(frozen=True)
class SignalData:
    """Recordings that are ready to be trained on, but not standardized.

    Attributes:
        recordings: At the run's sampling rate, in windows of its length.
        source: The file, or what stands for it.
        digest: Of the recordings.
        report: What details.json says of them.
    """

    recordings: Recordings
    source: str
    digest: str
    report: dict[str, Any]


def prepare(config: SignalConfig) -> SignalData:
    """Read the recordings of a run.

    Raises:
        ArgumentError: If no data are named.
        DataError: If they cannot be used; the message has the file and the subject.
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
        say(f"{source}: {_single(single)}; an accuracy of theirs says less than one of two classes")
    if config.standardize == "subject" and set(single) == set(subjects_of(made)):
        say("--standardize subject takes what tells such subjects apart out of their windows; "
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
    """Return the recordings of the demo: phases tell the classes apart, power does not."""
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
    """Read recordings for a trained model, and bring them to the form that it was trained with.

    Channels are put in the model's order, and others are left out; another sampling rate is
    brought to the model's, and longer windows are cut, both with a notice.

    Args:
        path: The file.
        reading: How to read it.
        channels: Those of the model.
        sampling_rate: Likewise.
        samples: Of a window of the model.
        is_labeled: Whether their classes are wanted; else they may be missing, or all the same.

    Raises:
        DataError: If a channel is missing, windows are too short, or the file cannot be used.
    """
    given = _read(path, reading, is_labeled=is_labeled)
    if left_out := [name for name in given.channels if name not in channels]:
        say(f"{path}: the model has not seen the channels {', '.join(left_out)}; left out")
    made = at_rate(given.in_order(channels, file=path), sampling_rate, path)
    seconds = samples / sampling_rate
    if made.signals.shape[2] != samples:
        before = len(made)
        made = cut(made, seconds, file=path)
        say(f"{path}: {before} windows of {given.seconds:g} s are cut into {len(made)} of "
            f"{seconds:g} s, as in training")  # fmt: skip
    return made


def at_rate(of: Recordings, sampling_rate: float, source: str | Path) -> Recordings:
    """Return the recordings at a sampling rate; a notice says where that was not theirs."""
    if of.sampling_rate == sampling_rate:
        return of
    say(f"{source}: resampled from {of.sampling_rate:g} Hz to {sampling_rate:g} Hz")
    return resampled(of, sampling_rate)


def with_labels_of(of: Recordings, classes: tuple[str, ...], file: str | Path) -> Recordings:
    """Return recordings whose labels are numbers into the classes of a model.

    Raises:
        DataError: If they have a class that the model does not know.
    """
    unknown = [name for name in of.classes if name not in classes]
    if unknown:
        raise DataError(
            f"the model does not know the class {', '.join(unknown)}; it knows "
            f"{', '.join(classes)}",
            file=file,
            mend="Leave its windows out, or train with it.",
        )
    places = np.asarray([classes.index(name) for name in of.classes])
    return replace(of, labels=places[of.labels], classes=classes)


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


def _check_steps(of: Recordings, config: SignalConfig, source: str) -> None:
    samples = of.signals.shape[2]
    if samples < config.stride:
        raise DataError(
            f"window 0 of subject {of.subjects[0]} has {samples} samples, fewer than the "
            f"{config.stride} of one step",
            file=source,
            mend="Give longer windows, or a smaller --stride.",
        )


def _single(subjects: list[str]) -> str:
    named = ", ".join(subjects[:5]) + (", …" if len(subjects) > 5 else "")
    verb = "has" if len(subjects) == 1 else "have"
    return f"{'subject' if len(subjects) == 1 else 'subjects'} {named} {verb} windows of one class"
