"""Recordings in ``.npz`` files: X, y, subject, fs, and optionally channels."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.array_files import described_arrays, read_arrays
from representer.data.signals.recordings import Recordings, recordings
from representer.errors import DataError
from representer.storage import atomic

KEYS = ("X", "y", "subject", "fs")
SUBJECTS = ("subject", "subjects", "subject_id", "subject_ids", "participant", "participants",
            "participant_id", "group", "groups")  # fmt: skip
RATES = ("fs", "sfreq", "srate", "sampling_rate", "sample_rate", "samplerate", "sampling_frequency",
         "Fs")  # fmt: skip
_FIX = (
    "X, y and subject have one entry per window; fs is in Hz. If windows or classes have another "
    "name: --signals NAME, --labels NAME."
)


def read_npz(
    path: str | Path, *, is_labeled: bool = True, signals: str = "X", labels: str = "y"
) -> Recordings:
    """Read recordings.

    Args:
        path: An ``.npz`` file with ``X`` (windows, channels, samples), ``y`` and ``subject``
            (windows,), ``fs`` in Hz, and optionally ``channels`` (channels,). Subjects and rate may
            have another common name, such as ``groups`` and ``sfreq``.
        is_labeled: Require the classes; if False, ``y`` may be missing.
        signals: Name of the array of the windows.
        labels: Name of the array of the classes.

    Raises:
        DataError: If the file is missing, damaged or not an archive, a key is missing, or the
            arrays are inconsistent.
    """
    path, keys = Path(path), (signals, labels, *KEYS[2:])
    arrays, _ = read_arrays(path, (*keys[:2], *SUBJECTS, *RATES, "channels"))
    return arrays_to_recordings(
        arrays, path, keys, lambda: described_arrays(path), is_labeled=is_labeled
    )


def arrays_to_recordings(
    arrays: Mapping[str, Any],
    path: Path,
    keys: Sequence[str],
    described: Callable[[], Sequence[str]],
    *,
    is_labeled: bool = True,
) -> Recordings:
    """Create recordings from the arrays of a file.

    Args:
        arrays: Those of the keys, and optionally channels.
        path: The file, for messages.
        keys: Names of the arrays of windows, classes, subjects and of the sampling rate.
        described: Returns all arrays of the file in words.
        is_labeled: Require the classes.

    Raises:
        DataError: If an array is missing, or the arrays are inconsistent.
    """
    arrays = dict(arrays)
    for names in (SUBJECTS, RATES):
        present = [name for name in names if name in arrays and name not in keys[:2]]
        if len(present) == 1:
            arrays[names[0]] = arrays[present[0]]
    missing = [key for key in keys if key not in arrays and (is_labeled or key != keys[1])]
    if missing:
        found = ", ".join(described()) or "none"
        problem = f"there is no array {' and no '.join(missing)}; the file has {found}"
        raise DataError(problem, file=path, fix=_FIX)
    x, y, subject, rate = (arrays.get(key) for key in keys)
    channels = arrays.get("channels")
    return recordings(x, y, subject, rate, channels, file=path, is_labeled=is_labeled)


def write_npz(path: str | Path, data: Recordings) -> None:
    """Write recordings to an ``.npz`` file that :func:`read_npz` reads."""
    content = io.BytesIO()
    np.savez_compressed(
        content,
        X=data.signals,
        y=np.asarray(data.classes)[data.labels],
        subject=data.subjects,
        fs=data.sampling_rate,
        channels=np.asarray(data.channels),
    )
    atomic.write_bytes(path, content.getvalue())
