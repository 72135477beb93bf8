"""Recordings in the files of MNE and in EDF: windows around the events that are marked in them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.errors import DataError, MissingExtraError

SUFFIXES = (".fif", ".edf", ".fif.gz")


@dataclass(frozen=True)
class MarkedWindows:
    """The windows of one file.

    Attributes:
        signals: ``(N, C, T)`` in volts.
        labels: Of each window, the name of its event.
        subject: Whose they are.
        sampling_rate: In Hz.
        channels: Names of the channels.
    """

    signals: np.ndarray
    labels: list[str]
    subject: str
    sampling_rate: float
    channels: tuple[str, ...]


def read_mne(
    path: str | Path,
    *,
    events: Sequence[str] = (),
    start: float = 0.0,
    seconds: float | None = None,
) -> MarkedWindows:
    """Read the windows of one ``.fif`` or ``.edf`` file.

    Epochs are taken as they are. A continuous recording is cut at its annotations: a window for
    every one, from ``start`` seconds after its onset on. Annotations that begin with BAD or EDGE
    are no events, and windows that touch a bad one are left out, as MNE does. Channels that are
    marked as bad, and those that are no signals of the brain (ECG, triggers), are left out.

    Args:
        path: A file of epochs or of a continuous recording.
        events: Names of the events to take; all by default.
        start: Seconds from the onset of an event to the start of its window.
        seconds: Length of a window; by default the shortest duration of the annotations taken.

    Raises:
        DataError: If there is no such file, it cannot be read, it marks no such events, or it is
            shorter than a window.
        MissingExtraError: If mne is not installed.
    """
    try:
        import mne
    except ImportError as error:
        raise MissingExtraError("reading .fif and .edf files", "mne", "signals") from error
    path = Path(path)
    if not path.is_file():
        raise DataError("there is no such file", file=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of names of files and of dates
            epochs = _epochs(mne, path, events, start, seconds)
    except DataError:
        raise
    except Exception as error:  # the readers raise whatever the formats raise
        raise DataError(f"it cannot be read: {error}", file=path) from error
    names = {number: name for name, number in epochs.event_id.items()}
    labels = [names[number] for number in epochs.events[:, 2]]
    if not labels:
        raise DataError(
            "no window lies within the recording and outside of bad parts",
            file=path,
            mend="Shorten the windows with --window-seconds.",
        )
    return MarkedWindows(
        epochs.get_data(copy=False).astype(np.float32),
        labels,
        _subject(epochs.info, path),
        float(epochs.info["sfreq"]),
        tuple(epochs.ch_names),
    )


def _epochs(
    mne: Any, path: Path, events: Sequence[str], start: float, seconds: float | None
) -> Any:
    if _is_epochs(path):
        epochs = mne.read_epochs(path, preload=True, verbose="error")
        _require_events(events, list(epochs.event_id), path)
        picked = epochs[list(events)] if events else epochs
        return picked.pick("data", exclude="bads")
    is_edf = path.name.endswith(".edf")
    read = mne.io.read_raw_edf if is_edf else mne.io.read_raw_fif
    raw = read(path, preload=True, verbose="error").pick("data", exclude="bads")
    marks = [a for a in raw.annotations if not re.match(r"(?i)bad|edge", a["description"])]
    named = sorted({str(a["description"]) for a in marks})
    _require_events(events, named, path)
    taken = set(events or named)
    if seconds is None:
        seconds = min(a["duration"] for a in marks if str(a["description"]) in taken)
        if not seconds:
            problem = "its events have no duration, so that the length of a window is not known"
            raise DataError(problem, file=path, mend="Give it by --window-seconds.")
    numbers = {name: k for k, name in enumerate(sorted(taken), 1)}
    at, numbers = mne.events_from_annotations(raw, event_id=numbers, verbose="error")
    last = start + seconds - 1 / raw.info["sfreq"]
    options = {"tmin": start, "tmax": last, "baseline": None, "preload": True}
    return mne.Epochs(raw, at, numbers, **options, event_repeated="drop", verbose="error")


def _is_epochs(path: Path) -> bool:
    return bool(re.search(r"[-_]epo(-\d+)?\.fif(\.gz)?$", path.name))


def _require_events(wanted: Sequence[str], found: list[str], path: Path) -> None:
    missing = sorted(set(wanted) - set(found))
    if missing or not found:
        what = f"the events {', '.join(missing)} are not" if missing else "no event is"
        there = ", ".join(found) or "none"
        mend = "A continuous recording names its events by annotations."
        raise DataError(f"{what} marked in it; there are {there}", file=path, mend=mend)


def _subject(info: Any, path: Path) -> str:
    """Return who it is: the file's own word, or its name up to the first _ (sub-01_task-rest)."""
    known = (info.get("subject_info") or {}).get("his_id")
    stem = re.split(r"[-_]epo\b|\.", path.name)[0]
    return str(known) if known and known != "X" else stem.split("_")[0]
