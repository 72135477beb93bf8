"""Reading of recordings from a file or a folder of files."""

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
_ARRAYS_ARE = "X (windows, channels, samples), y, subject, fs in Hz and channels"


def read_recordings(
    path: str | Path,
    *,
    events: Sequence[str] = (),
    start: float = 0.0,
    seconds: float | None = None,
    is_labeled: bool = True,
    signals: str = "X",
    labels: str = "y",
) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` or ``.mat`` file of arrays, see :func:`read_npz`; a ``.fif`` or ``.edf``
            file; or a folder of ``.fif`` and ``.edf`` files, of all subjects.
        events: For ``.fif`` and ``.edf``: names of the events, which become the classes.
        start: For continuous recordings: seconds from an event to the start of its window.
        seconds: For continuous recordings: length of a window.
        is_labeled: Require the classes; if False, they may be missing or all the same.
        signals: For ``.npz`` and ``.mat``: name of the array of the windows.
        labels: For ``.npz`` and ``.mat``: name of the array of the classes.

    Raises:
        DataError: If a file cannot be read, or the files of a folder are inconsistent.
        MissingExtraError: If mne is needed and not installed.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(mne_files.SUFFIXES))
        if not files:
            fix = f"Save the arrays of all subjects in one .npz or .mat file: {_ARRAYS_ARE}."
            raise DataError("the folder has no .fif or .edf file", file=path, fix=fix)
    elif path.suffix in _ARRAYS:
        return _ARRAYS[path.suffix](path, is_labeled=is_labeled, signals=signals, labels=labels)
    elif path.name.endswith(mne_files.SUFFIXES):
        files = [path]
    else:
        problem = f"the suffix is {path.suffix!r}; expected .npz, .mat, .fif or .edf"
        fix = f"Save the windows of all subjects in one .npz file: {_ARRAYS_ARE}."
        raise DataError(problem, file=path, fix=fix)
    read = [mne_files.read_mne(f, events=events, start=start, seconds=seconds) for f in files]
    return _joined(list(zip(files, read, strict=True)), path, is_labeled)


def _joined(parts: list[tuple[Path, Recordings]], path: Path, is_labeled: bool) -> Recordings:
    """Concatenate the windows of several files, with the channels in the order of the first."""
    name, first = parts[0][0].name, parts[0][1]
    for file, part in parts:
        if part.sampling_rate != first.sampling_rate:
            raise DataError(
                f"the sampling rate of subject {part.subjects[0]} is {part.sampling_rate:g} Hz, "
                f"and that of {name} {first.sampling_rate:g} Hz",
                file=file,
                fix="Resample the files to one rate, as raw.resample does.",
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
