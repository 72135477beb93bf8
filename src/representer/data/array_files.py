"""Reading of arrays from ``.npz`` files, without pickles and with checked sizes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from representer.data.tables.files import most_bytes, open_regular
from representer.errors import DataError, reason

DEFLATE_RATIO = 1032
"""The largest expansion ratio of the deflate format."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(path: Path, names: Sequence[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Read arrays of an ``.npz`` file after checking each declared size against the file.

    Those are read-only; the names of the other arrays in the file are returned, too.
    """
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = {
                    entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()
                }
                wanted = {name: entries[name] for name in names if name in entries}
                held, packed = sum(e.file_size for e in wanted.values()), path.stat().st_size
                if held > most_bytes(packed):
                    raise ValueError(f"arrays of {held:,} bytes are compressed to {packed:,}")
                arrays = {name: _read(archive, name, entry) for name, entry in wanted.items()}
        except Exception as error:  # zipfile, zlib and numpy raise many types on damaged files
            fix = "Save it with numpy.savez: plain arrays, no objects."
            raise DataError(
                f"cannot be read as .npz: {reason(error)}", file=path, fix=fix
            ) from None
    return arrays, [name for name in entries if name not in wanted]


def described_arrays(path: Path) -> list[str]:
    """Return name, dtype and shape of each array of an ``.npz`` file, for messages.

    Raises:
        DataError: If the file cannot be read.
    """
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        return [_described(archive, entry) for entry in archive.infolist()]


def _described(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    name = entry.filename.removesuffix(".npy")
    try:
        with archive.open(entry) as member:
            shape, _, dtype = _header(member, name)
    except Exception:  # of an array that is not needed
        return name
    return f"{name} {dtype} {shape}"


def _header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version not in _HEADERS:
        raise ValueError(f"the array {name} has format version {version}; expected 1.0 or 2.0")
    return _HEADERS[version](member)


def _read(archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> np.ndarray:
    if entry.file_size > DEFLATE_RATIO * entry.compress_size:
        raise ValueError(f"the entry {name} declares more bytes than it can hold")
    with archive.open(entry) as member:
        shape, is_fortran, dtype = _header(member, name)
        if dtype.hasobject:
            raise ValueError(f"the array {name} holds objects")
        declared, held = math.prod(shape) * dtype.itemsize, entry.file_size - member.tell()
        if declared != held or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"the array {name} declares {declared:,} bytes and holds {held:,}")
        data = member.read(held)
    return np.ndarray(shape, dtype, data, order="F" if is_fortran else "C")
