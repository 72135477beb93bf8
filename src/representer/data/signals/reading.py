"""Reading recordings from whatever they are in: one file, or a folder of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from representer.data.signals import mne_files
from representer.data.signals.mat import read_mat
from representer.data.signals.npz import read_npz
from representer.data.signals.recordings import Recordings, recordings
from representer.errors import DataError

_ARRAYS: dict[str, Callable[..., Recordings]] = {".npz": read_npz, ".mat": read_mat}


def read_recordings(
    path: str | Path,
    *,
    events: Sequence[str] = (),
    start: float = 0.0,
    seconds: float | None = None,
    is_labeled: bool = True,
) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` or ``.mat`` file of arrays, see :func:`read_npz`; a ``.fif`` or ``.edf``
            file; or a folder of ``.fif`` and ``.edf`` files, of all subjects.
        events: For ``.fif`` and ``.edf``: names of the events, which become the classes.
        start: For continuous recordings: seconds from an event to the start of its window.
        seconds: For continuous recordings: length of a window.
        is_labeled: Whether the classes are wanted; if not, they may be missing, or all the same.

    Raises:
        DataError: If something cannot be read, or the files of a folder do not fit together.
        MissingExtraError: If mne is needed and not installed.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(mne_files.SUFFIXES))
        if not files:
            mend = "Arrays of all subjects belong into one .npz or .mat file."
            raise DataError("there is no .fif or .edf file in it", file=path, mend=mend)
    elif path.suffix in _ARRAYS:
        return _ARRAYS[path.suffix](path, is_labeled=is_labeled)
    elif path.name.endswith(mne_files.SUFFIXES):
        files = [path]
    else:
        problem = f"it is a {path.suffix or 'nameless'} file; expected .npz, .mat, .fif or .edf"
        raise DataError(problem, file=path)
    read = [mne_files.read_mne(f, events=events, start=start, seconds=seconds) for f in files]
    return _joined(list(zip(files, read, strict=True)), path, is_labeled)


def _joined(
    parts: list[tuple[Path, mne_files.MarkedWindows]], path: Path, is_labeled: bool
) -> Recordings:
    """Put the windows of several files together, with the channels in the order of the first."""
    first = parts[0][1]
    samples = min(part.signals.shape[2] for _, part in parts)
    signals = []
    for file, part in parts:
        if part.sampling_rate != first.sampling_rate:
            raise DataError(
                f"the sampling rate of subject {part.subject} is {part.sampling_rate:g} Hz, and "
                f"that of {parts[0][0].name} {first.sampling_rate:g} Hz",
                file=file,
                mend="Resample the files to one rate, as raw.resample does.",
            )
        if sorted(part.channels) != sorted(first.channels):
            other = sorted(set(part.channels) ^ set(first.channels))
            raise DataError(
                f"its channels are not those of {parts[0][0].name}; {', '.join(other)} are in one "
                "of the two only",
                file=file,
                mend="Pick the same channels of every file.",
            )
        order = [part.channels.index(name) for name in first.channels]
        signals.append(part.signals[:, order, :samples])
    return recordings(
        np.concatenate(signals),
        [label for _, part in parts for label in part.labels],
        [part.subject for _, part in parts for _ in part.labels],
        first.sampling_rate,
        first.channels,
        file=path,
        is_labeled=is_labeled,
    )
