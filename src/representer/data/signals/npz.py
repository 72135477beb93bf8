"""Recordings in ``.npz`` files: X, y, subject, fs, and optionally channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.array_files import read_arrays
from representer.data.signals.recordings import Recordings, recordings
from representer.errors import DataError

KEYS = ("X", "y", "subject", "fs")
_FIX = "X, y and subject have one entry per window; fs is in Hz."


def read_npz(path: str | Path, *, is_labeled: bool = True) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` file with ``X`` (windows, channels, samples), ``y`` and ``subject``
            (windows,), ``fs`` in Hz, and optionally ``channels`` (channels,).
        is_labeled: Require the classes; if False, ``y`` may be missing.

    Raises:
        DataError: If the file is missing, damaged or not an archive, a key is missing, or the
            arrays are inconsistent.
    """
    arrays, others = read_arrays(Path(path), (*KEYS, "channels"))
    return arrays_to_recordings(arrays, Path(path), others, is_labeled=is_labeled)


def arrays_to_recordings(
    arrays: Mapping[str, Any],
    path: Path,
    others: Iterable[str] = (),
    *,
    is_labeled: bool = True,
) -> Recordings:
    """Create recordings from the arrays of a file.

    Args:
        arrays: X, y, subject, fs and optionally channels; others are ignored.
        path: The file, for messages.
        others: Names of further arrays in the file.
        is_labeled: Require the classes.

    Raises:
        DataError: If an array is missing, or the arrays are inconsistent.
    """
    missing = [key for key in KEYS if key not in arrays and (is_labeled or key != "y")]
    if missing:
        found = ", ".join((*arrays, *others)) or "none"
        problem = f"the keys {', '.join(missing)} are missing; the file has {found}"
        raise DataError(problem, file=path, fix=_FIX)
    x, y, subject, rate = (arrays.get(key) for key in KEYS)
    channels = arrays.get("channels")
    return recordings(x, y, subject, rate, channels, file=path, is_labeled=is_labeled)


def write_npz(path: str | Path, data: Recordings) -> None:
    """Write recordings to an ``.npz`` file that :func:`read_npz` reads."""
    np.savez_compressed(
        path,
        X=data.signals,
        y=np.asarray(data.classes)[data.labels],
        subject=data.subjects,
        fs=data.sampling_rate,
        channels=np.asarray(data.channels),
    )
