"""Recordings in an ``.npz`` file: X, y, subject, fs, and channels if they are known."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals.recordings import Recordings, recordings
from representer.errors import DataError

KEYS = ("X", "y", "subject", "fs")
_MEND = "X, y and subject are of each window, fs is in Hz."


def read_npz(path: str | Path, *, is_labeled: bool = True) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` file with ``X`` (windows, channels, samples), ``y`` and ``subject``
            (windows,), ``fs`` in Hz, and if known ``channels`` (channels,).
        is_labeled: Whether the classes are wanted; if not, ``y`` may be missing.

    Raises:
        DataError: If there is no such file, it is no such archive, a key is missing, or the arrays
            do not fit together.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError("there is no such file", file=path)
    if not zipfile.is_zipfile(path):
        raise DataError("it is no .npz file of arrays", file=path, mend=_MEND)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files if key in (*KEYS, "channels")}
            others = [key for key in archive.files if key not in arrays]
    except (ValueError, OSError, zipfile.BadZipFile, RuntimeError) as error:
        problem = f"an array of it cannot be read: {str(error).rstrip('.')}"
        raise DataError(problem, file=path, mend="Save plain arrays, no objects.") from error
    return arrays_to_recordings(arrays, path, others, is_labeled=is_labeled)


def arrays_to_recordings(
    arrays: Mapping[str, Any],
    path: Path,
    others: Iterable[str] = (),
    *,
    is_labeled: bool = True,
) -> Recordings:
    """Make recordings of the arrays of a file.

    Args:
        arrays: X, y, subject, fs and perhaps channels, and others that are not looked at.
        path: Named in messages.
        others: Names of further arrays of the file.
        is_labeled: Whether the classes are wanted.

    Raises:
        DataError: If one is missing, or they do not fit together.
    """
    missing = [key for key in KEYS if key not in arrays and (is_labeled or key != "y")]
    if missing:
        found = ", ".join((*arrays, *others)) or "none"
        problem = f"the keys {', '.join(missing)} are missing; there are {found}"
        raise DataError(problem, file=path, mend=_MEND)
    x, y, subject, rate = (arrays.get(key) for key in KEYS)
    channels = arrays.get("channels")
    return recordings(x, y, subject, rate, channels, file=path, is_labeled=is_labeled)


def write_npz(path: str | Path, of: Recordings) -> None:
    """Write recordings as `read_npz` reads them."""
    np.savez_compressed(
        path,
        X=of.signals,
        y=np.asarray(of.classes)[of.labels],
        subject=of.subjects,
        fs=of.sampling_rate,
        channels=np.asarray(of.channels),
    )
