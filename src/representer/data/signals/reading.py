"""Reading of recordings from a file or a folder of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from representer.data.signals.mat import read_mat
from representer.data.signals.mne_files import LISTED, read_mne
from representer.data.signals.npz import read_npz
from representer.data.signals.preparation import cut, resampled
from representer.data.signals.recordings import Recordings, recordings
from representer.data.signals.tables import EXAMPLE, read_listed
from representer.data.tables.formats import format_of
from representer.data.tables.reading import kind_of, named_table
from representer.errors import DataError

_ARRAYS: dict[str, Callable[..., Recordings]] = {"npz": read_npz, "mat": read_mat}
_FORMS = (
    f"List recordings in {EXAMPLE}, or save the windows of all subjects in one .npz file: "
    "X (windows, channels, samples), y, subject, fs in Hz and channels."
)
_RESAMPLE = "Resample them to one rate with --resample HZ."


def read_recordings(
    path: str | Path,
    *,
    events: Sequence[str] = (),
    start: float = 0.0,
    seconds: float | None = None,
    is_labeled: bool = True,
    signals: str = "X",
    labels: str = "y",
    sampling_rate: float = 0.0,
    window_seconds: float = 0.0,
    is_whole: bool = False,
) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` or ``.mat`` file of arrays, see :func:`read_npz`; a file that
            :func:`read_mne` reads, or a folder of them, of all subjects; or a table such as
            ``recordings.csv``, see below, or its folder.
        events: For files of MNE: names of the events, which become the classes.
        start: For continuous recordings: seconds from an event to the start of its window.
        seconds: For continuous recordings: length of a window.
        is_labeled: Require the classes; if False, they may be missing or all the same.
        signals: For ``.npz`` and ``.mat``: name of the array of the windows.
        labels: For ``.npz`` and ``.mat``: name of the array of the classes.
        sampling_rate: Of recordings that a table lists, or that differ in it, or that are not cut
            at events: resample each to this rate in Hz; 0 for no resampling.
        window_seconds: Of recordings that a table lists or that are not cut at events: cut each
            into windows of this length, without overlap and without the remainder; 0 for one
            window each, as long as the shortest.
        is_whole: Without `is_labeled` and `events`, do not cut a continuous recording at its
            events, either; one without events is never.

    A table lists the recordings, a line each: the file, relative to its folder, the class, the
    subject, and optionally ``fs``, the sampling rate in Hz. Each file is one that :func:`read_mne`
    reads, whatever its events, or a table, too: a row is a sample, a column a channel. A column
    ``time`` or ``timestamp`` is none; it gives the sampling rate where there is no ``fs``.

    Raises:
        DataError: If a file cannot be read, or the files of a folder are inconsistent.
        MissingExtraError: If mne is needed and not installed.
    """
    path = Path(path)
    listing = named_table(path, "recordings") if path.is_dir() else path
    if listing and kind_of(listing):
        parts, notes = read_listed(
            listing, sampling_rate=sampling_rate, window_seconds=window_seconds,
            is_labeled=is_labeled,
        )  # fmt: skip
        return replace(_joined(parts, listing, is_labeled), notes=notes)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if format_of(file) == "mne")
        if not files:
            problem = f"the folder has no {LISTED} file, and no recordings.csv"
            raise DataError(problem, file=path, fix=_FORMS)
    elif reader := _ARRAYS.get(format_of(path) or ""):
        return reader(path, is_labeled=is_labeled, signals=signals, labels=labels)
    elif format_of(path) == "mne":
        files = [path]
    else:
        problem = f"the suffix is {path.suffix!r}; expected .csv, .npz, .mat, {LISTED}"
        raise DataError(problem, file=path, fix=_FORMS)
    whole = False if is_labeled else ((is_whole and not events) or None)
    options = {"events": events, "start": start, "seconds": seconds, "is_whole": whole}
    read = [read_mne(file, **options) for file in files]
    if sampling_rate and (not is_labeled or len({part.sampling_rate for part in read}) > 1):
        read = [resampled(part, sampling_rate) for part in read]
    if window_seconds and not is_labeled:
        read = [cut(one, window_seconds, file=file) for file, one in zip(files, read, strict=True)]
    notes = dict.fromkeys(note for part in read for note in part.notes)
    joined = _joined(list(zip(files, read, strict=True)), path, is_labeled)
    return replace(joined, notes=tuple(notes))


def _joined(
    parts: list[tuple[Path, Recordings]],
    path: Path,
    is_labeled: bool,
    fix: str = _RESAMPLE,
) -> Recordings:
    """Concatenate the windows of several files, with the channels in the order of the first."""
    name, first = parts[0][0].name, parts[0][1]
    for file, part in parts:
        if part.sampling_rate != first.sampling_rate:
            raise DataError(
                f"the sampling rate of subject {part.subjects[0]} is {part.sampling_rate:g} Hz, "
                f"and that of {name} {first.sampling_rate:g} Hz",
                file=file,
                fix=fix,
            )
        if other := sorted(set(part.channels) ^ set(first.channels)):
            raise DataError(
                f"its channels differ from those of {name}; {', '.join(other)} are in only one of "
                "the two",
                file=file,
                fix="Pick the same channels in every file.",
            )
    every = [part.in_order(first.channels) for _, part in parts]
    samples = min(part.signals.shape[2] for part in every)
    return recordings(
        np.concatenate([part.signals[:, :, :samples] for part in every]),
        np.concatenate([np.asarray(part.classes)[part.labels] for part in every]),
        np.concatenate([part.subjects for part in every]),
        first.sampling_rate, first.channels, file=path, is_labeled=is_labeled,
    )  # fmt: skip
