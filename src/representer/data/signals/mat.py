"""Recordings in a MATLAB file: the arrays X, y, subject, fs, and optionally channels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.signals.mat_layout import check_layout
from representer.data.signals.npz import KEYS, RATES, SUBJECTS, arrays_to_recordings
from representer.data.signals.recordings import Recordings
from representer.data.tables.source import open_regular
from representer.errors import DataError, MissingExtraError
from representer.printable import reason


def read_mat(
    path: str | Path, *, is_labeled: bool = True, signals: str = "X", labels: str = "y"
) -> Recordings:
    """Read recordings.

    Args:
        path: A ``.mat`` file of version 7 or older with the arrays of an ``.npz`` file, see
            :func:`read_npz`. Names may be cells, char rows or numbers.
        is_labeled: Require the classes; if False, ``y`` may be missing.
        signals: Name of the array of the windows.
        labels: Name of the array of the classes.

    Raises:
        DataError: If the file is missing or damaged, an array is missing, or the arrays are
            inconsistent.
        MissingExtraError: If scipy is not installed.
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise MissingExtraError("read_mat()", "scipy", "signals") from error
    path, keys = Path(path), (signals, labels, *KEYS[2:])
    wanted = (*keys[:2], *SUBJECTS, *RATES, "channels")
    with open_regular(path) as file:
        try:
            names = check_layout(file, wanted)
            with warnings.catch_warnings(action="ignore"):  # about duplicate variables
                arrays = loadmat(file, variable_names=[*wanted[1:]], simplify_cells=True)
                file.seek(0)  # axes of length 1 are dropped there, as of a single channel
                arrays |= loadmat(file, variable_names=[signals])
            for name in (labels, *SUBJECTS, "channels"):
                if name in arrays:
                    arrays[name] = _names(arrays[name])
        except NotImplementedError:
            fix = "Save it with save(..., '-v7')."
            raise DataError(
                "MATLAB files of version 7.3 are not supported", file=path, fix=fix
            ) from None
        except Exception as error:  # scipy and zlib raise many types on damaged files
            problem = f"cannot be read as a MATLAB file: {reason(error)}"
            raise DataError(problem, file=path, fix="Save it again.") from None
    arrays = {name: arrays[name] for name in wanted if name in arrays}
    described = [*arrays, *(name for name in names if name and name not in arrays)]
    return arrays_to_recordings(arrays, path, keys, lambda: described, is_labeled=is_labeled)


def _names(value: Any) -> np.ndarray:
    """Return one entry per window or channel; MATLAB pads char rows with spaces."""
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind in "OU":
        return np.asarray([str(entry).rstrip() for entry in array.reshape(-1)])
    return array.reshape(-1)
