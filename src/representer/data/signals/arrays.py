"""Recordings in a MATLAB or .npz file: the arrays X, y, subject, fs, and optionally channels."""

from __future__ import annotations

import io
import math
import mmap
import struct
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from representer.data.signals.recordings import Recordings, recordings
from representer.data.tables.files import described_arrays, most_bytes, open_regular, read_arrays
from representer.errors import DataError, MissingExtraError, reason
from representer.storage import atomic

# Checks of the sizes that a MATLAB file declares, and the names of its variables.
#
# The reader of scipy allocates the declared sizes before it reads the data. So the layout is
# checked first, as described in MathWorks' "MAT-File Format": version 5 (tags of type and size,
# nested, possibly deflated) and version 4 (a header of five numbers before each matrix).

_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
_WIDTHS_4 = (8, 4, 4, 2, 2, 1)
_INT8, _INT32, _UINT32, _MATRIX, _DEFLATED = 1, 5, 6, 14, 15
_CELL, _STRUCTURES, _CHAR, _NUMERIC = 1, (2, 3), 4, range(6, 16)
_BOUNDED = (5, 16, 17)  # sparse arrays, functions and opaque objects, which declare no sizes
_DEEPEST, _DEEPEST_STRUCTURE = 8, 40
_HEADER = 1 << 12  # decompressed bytes that contain the name of a variable

Bytes = bytes | mmap.mmap


class _Element(NamedTuple):
    """Type, start and end of an element's data, and the start of the next element."""

    kind: int
    start: int
    stop: int
    following: int


def check_layout(file: IO[bytes], wanted: Collection[str] | None = None) -> list[str]:
    """Return the names of the variables of a MATLAB file.

    The sizes of those that will be read (``wanted``) are checked, too; if all are, they may be
    structures.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if 0 in data[:4]:
            return _names_4(data)
        if len(data) < 128 or data[126:128] not in (b"IM", b"MI"):
            raise ValueError("it has no MATLAB header")
        order = "<" if data[126:128] == b"IM" else ">"
        version = struct.unpack(f"{order}H", data[124:126])[0] >> 8
        if version == 2:
            raise NotImplementedError
        if version != 1:
            raise ValueError(f"format version {version} is unknown")
        return _names_5(data, order, wanted)


def _names_5(data: Bytes, order: str, wanted: Collection[str] | None) -> list[str]:
    names, i, left = [], 128, most_bytes(len(data))
    while i < len(data):
        element = _element(data, i, len(data), order)
        i = element.stop if element.kind == _DEFLATED else element.following
        inside: Bytes = data
        if element.kind == _DEFLATED:
            deflated = data[element.start : element.stop]
            inside = zlib.decompressobj().decompress(deflated, _HEADER)
            name = _name(inside, order)
            if is_read := wanted is None or name in wanted:
                inside = zlib.decompressobj().decompress(deflated, left + 1)
                left -= len(inside)
                if left < 0:
                    raise ValueError("its variables are compressed too far; save it with '-v6'")
            element = _element(inside, 0, len(inside), order, is_whole=is_read)
        else:
            name = _name(data[element.start - 8 : element.start + _HEADER], order)
        if element.kind != _MATRIX:
            raise ValueError(f"an element of type {element.kind} is not a variable")
        if wanted is None or name in wanted:
            _check_matrix(inside, element, order, 0, is_any=wanted is None)
        names.append(name)
    return names


def _name(head: bytes, order: str) -> str:
    matrix = _element(head, 0, len(head), order, is_whole=False)
    flags = _element(head, matrix.start, len(head), order)
    dims = _element(head, flags.following, len(head), order)
    name = _element(head, dims.following, len(head), order)
    return head[name.start : name.stop].decode("latin-1")


def _element(data: Bytes, i: int, end: int, order: str, *, is_whole: bool = True) -> _Element:
    if end - i < 8:
        raise ValueError("it ends too early")
    code, length = struct.unpack(f"{order}II", data[i : i + 8])
    start, following = i + 8, i + 8 + length + -length % 8
    if code >> 16:  # a small element: type and size share four bytes, the data has the other four
        code, length, start, following = code & 0xFFFF, code >> 16, i + 4, i + 8
    if is_whole and start + length > min(end, following):
        raise ValueError(f"an element declares {length:,} bytes and {end - start:,} are left")
    return _Element(code, start, start + length, following)


def _check_matrix(data: Bytes, matrix: _Element, order: str, depth: int, *, is_any: bool) -> None:
    end = matrix.stop
    flags = _element(data, matrix.start, end, order)
    if is_any and data[flags.start : flags.start + 4][0 if order == "<" else -1] in _BOUNDED:
        return
    dims = _element(data, flags.following, end, order)
    name = _element(data, dims.following, end, order)
    is_valid = (flags.kind, dims.kind, name.kind) == (_UINT32, _INT32, _INT8)
    if not is_valid or flags.stop - flags.start != 8 or (dims.stop - dims.start) % 4:
        raise ValueError("an array has a damaged header")
    bits = struct.unpack(f"{order}I", data[flags.start : flags.start + 4])[0]
    shape = struct.unpack(f"{order}{(dims.stop - dims.start) // 4}i", data[dims.start : dims.stop])
    if min(shape, default=-1) < 0:
        raise ValueError(f"an array has shape {shape}")
    count, i = math.prod(shape), name.following
    code, is_complex = bits & 0xFF, bits >> 11 & 1
    is_structure = is_any and code in _STRUCTURES
    if (code == _CELL or is_structure) and depth < (_DEEPEST_STRUCTURE if is_any else _DEEPEST):
        if is_structure:  # the length of a name, the names, and a value for each of them
            if code == _STRUCTURES[1]:  # the name of its class
                i = _element(data, i, end, order).following
            length = _element(data, i, end, order)
            fields = _element(data, length.following, end, order)
            (size,) = struct.unpack(f"{order}i", data[length.start : length.start + 4])
            count, i = count * ((fields.stop - fields.start) // max(size, 1)), fields.following
        if 8 * count > end - i:
            raise ValueError(f"{count:,} cells are declared in {end - i:,} bytes")
        for _ in range(count):
            cell = _element(data, i, end, order)
            if cell.kind != _MATRIX:
                raise ValueError("a cell is not an array")
            if cell.stop > cell.start:
                _check_matrix(data, cell, order, depth + 1, is_any=is_any)
            i = cell.following
        return
    if code != _CHAR and code not in _NUMERIC:
        raise ValueError("an array is sparse, a structure, an object or too deeply nested")
    for _ in range(1 + is_complex):
        value = _element(data, i, end, order)
        width = _WIDTHS.get(value.kind, 0)
        held = (value.stop - value.start) // width if width else 0
        if held < count or (held > count and code != _CHAR):  # characters may take several bytes
            raise ValueError(f"an array declares {count:,} entries and holds {held:,}")
        i = value.following


def _names_4(data: Bytes) -> list[str]:
    names, i = [], 0
    while i < len(data):
        if len(data) - i < 20:
            raise ValueError("it ends too early")
        order = "<" if struct.unpack("<I", data[i : i + 4])[0] < 5000 else ">"
        form, rows, columns, imaginary, letters = struct.unpack(f"{order}5i", data[i : i + 20])
        width, code = form // 10 % 10, form % 10
        if min(form, rows, columns) < 0 or imaginary not in (0, 1) or width >= len(_WIDTHS_4):
            raise ValueError("a matrix has a damaged header")
        if code > 1:
            raise ValueError("an array is sparse")
        start = i + 20 + letters
        i = start + _WIDTHS_4[width] * rows * columns * (1 + imaginary)
        if not 0 < letters <= len(data) or i > len(data):
            raise ValueError("a matrix declares more bytes than the file has")
        names.append(data[start - letters : start].rstrip(b"\0").decode("latin-1"))
    return names


# Recordings in ``.npz`` files: X, y, subject, fs, and optionally channels.

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
    arrays: Mapping[str, Any], path: Path, keys: Sequence[str],
    described: Callable[[], Sequence[str]], *, is_labeled: bool = True,
) -> Recordings:  # fmt: skip
    """Create recordings from the arrays of a file.

    ``keys`` name the arrays of windows, classes, subjects and of the sampling rate; ``described``
    returns all arrays of the file in words.
    """
    arrays = dict(arrays)
    for names in (SUBJECTS, RATES):
        present = [name for name in names if name in arrays and name not in keys[:2]]
        if len(present) == 1:
            arrays[names[0]] = arrays[present[0]]
    missing = [key for key in keys if key not in arrays and (is_labeled or key != keys[1])]
    if missing:
        listed = ", ".join(described()) or "none"
        problem = f"there is no array {' and no '.join(missing)}; the file has {listed}"
        raise DataError(problem, file=path, fix=_FIX)
    x, y, subject, rate = (arrays.get(key) for key in keys)
    channels = arrays.get("channels")
    return recordings(x, y, subject, rate, channels, file=path, is_labeled=is_labeled)


def write_npz(path: str | Path, data: Recordings) -> None:
    """Write recordings to an ``.npz`` file that :func:`read_npz` reads."""
    content = io.BytesIO()
    np.savez_compressed(
        content, X=data.signals, y=np.asarray(data.classes)[data.labels], subject=data.subjects,
        fs=data.sampling_rate, channels=np.asarray(data.channels),
    )  # fmt: skip
    atomic.write_bytes(path, content.getvalue())


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
