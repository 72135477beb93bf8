"""Recordings in a MATLAB file: the arrays X, y, subject, fs, and channels if they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals.npz import arrays_to_recordings
from representer.data.signals.recordings import Recordings
from representer.errors import DataError, MissingExtraError


def read_mat(path: str | Path, *, is_labeled: bool = True) -> Recordings:
    """Read recordings.

    Args:
        path: A ``.mat`` file of version 7 or older with the arrays of an ``.npz`` file, see
            :func:`read_npz`. Names may be cells, char rows or numbers.
        is_labeled: Whether the classes are wanted; if not, ``y`` may be missing.

    Raises:
        DataError: If there is no such file, it cannot be read, an array is missing, or the arrays
            do not fit together.
        MissingExtraError: If scipy is not installed.
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise MissingExtraError("read_mat()", "scipy", "signals") from error
    path = Path(path)
    if not path.is_file():
        raise DataError("there is no such file", file=path)
    try:
        found = loadmat(path, simplify_cells=True)
    except NotImplementedError as error:
        mend = "Save it with save(..., '-v7')."
        raise DataError("it is of MATLAB's version 7.3", file=path, mend=mend) from error
    except Exception as error:  # the reader raises whatever its parts raise
        raise DataError(f"it is no MATLAB file: {error}", file=path) from error
    arrays = {name: value for name, value in found.items() if not name.startswith("__")}
    for name in ("y", "subject", "channels"):
        if name in arrays:
            arrays[name] = _names(arrays[name])
    return arrays_to_recordings(arrays, path, is_labeled=is_labeled)


def _names(value: Any) -> np.ndarray:
    """Return one entry for each window or channel; MATLAB pads rows of letters with blanks."""
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind in "OU":
        return np.asarray([str(entry).rstrip() for entry in array.reshape(-1)])
    return array.reshape(-1)
