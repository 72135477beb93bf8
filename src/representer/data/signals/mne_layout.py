"""Checks of the sizes and links that a FIF or EDF file declares.

The readers of MNE allocate declared sizes, follow cyclic links, and open referenced files. So the
tags of a FIF file and the header of an EDF or BDF file are checked first.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
from pathlib import Path

from representer.data.tables.source import MAX_EXPANSION, Limited, open_regular

_FILE_ID, _DIR_POINTER, _DIRECTORY, _REF_NUMBER, _REF_NAME = 100, 101, 102, 117, 118
_MAX_PARTS = 100  # files into which one recording is split


def check_fif(path: Path) -> None:
    """Check the tags of a FIF file, and of the files that continue it.

    Args:
        path: The file; ``.gz`` is decompressed.

    Raises:
        ValueError: If a tag declares more bytes than the file has, links backwards, or refers to a
            file in another folder or one that was read already.
        DataError: If it, or a file that continues it, is not a regular file.
    """
    waiting, seen = [path], set()
    while waiting:
        current = waiting.pop()
        if current in seen or len(seen) == _MAX_PARTS:
            raise ValueError(f"{current.name} continues itself")
        seen.add(current)
        with open_regular(current) as file:
            size = os.fstat(file.fileno()).st_size
            if current.suffix != ".gz":
                names = _walk(file, size, current)
            else:
                limit = max(1 << 20, MAX_EXPANSION * size)
                with gzip.open(file) as stream:
                    size = _length(io.BufferedReader(Limited(stream, limit, current), 1 << 16))
                    stream.seek(0)
                    names = _walk(stream, size, current)
        for name in names:
            if Path(name).name != name:
                raise ValueError(f"it names the file {name!r} in another folder")
            if (current.parent / name).exists():
                waiting.append(current.parent / name)


def check_edf(path: Path) -> None:
    """Check the sizes in the header of an EDF or BDF file against the size of the file.

    Raises:
        ValueError: If they are too large.
        DataError: If the file is missing or not a regular file.
    """
    width = 3 if path.suffix.lower() == ".bdf" else 2  # bytes of a sample
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(256)
        if len(head) < 256:
            raise ValueError("the header ends too early")
        signals = _count(head[252:256], "signals")
        columns = file.read(256 * signals)
        if not signals or len(columns) < 256 * signals:
            raise ValueError(f"the header declares {signals} signals and ends too early")
    fields = columns[216 * signals : 224 * signals]
    samples = [_count(fields[8 * k : 8 * k + 8], "samples") for k in range(signals)]
    records, _ = divmod(size - 256 - len(columns), width * sum(samples) or 1)
    if records < 1:
        raise ValueError("it holds no complete data record")
    # all signals are resampled to the highest rate
    require_plausible(signals * max(samples) * records, size)


def require_plausible(samples: int, size: int) -> None:
    """Check that the number of samples is plausible for the size of the file.

    Args:
        samples: The samples of all channels.
        size: The size of the file in bytes.

    Raises:
        ValueError: If there are over ten million samples and more than a thousand per byte.
    """
    if samples > 10_000_000 + 1000 * size:
        raise ValueError(f"{samples:,} samples are declared in {size:,} bytes")


def _count(field: bytes, name: str) -> int:
    if not re.fullmatch(rb"[0-9]+ *", field):
        raise ValueError(f"the number of {name} is {field.decode('latin-1')!r}")
    return int(field)


def _length(stream: io.BufferedReader) -> int:
    length = 0
    while chunk := stream.read(1 << 20):
        length += len(chunk)
    return length


def _walk(file: gzip.GzipFile | io.BufferedReader, size: int, path: Path) -> list[str]:
    """Return the names of the files that a file refers to."""
    at, names, following = 0, [], 0
    while 0 <= at <= size - 16:
        file.seek(at)
        kind, _, length, following = struct.unpack(">iIii", file.read(16))
        if at == 0 and (kind, length) != (_FILE_ID, 20):
            raise ValueError("it does not start like a FIF file")
        end = at + 16 + length
        if length < 0 or end > size:
            raise ValueError(f"a tag declares {length:,} bytes, and {size - at - 16:,} are left")
        if kind == _DIR_POINTER and length == 4:
            _check_directory(file, struct.unpack(">i", file.read(4))[0], size)
        elif kind == _REF_NAME:
            names.append(file.read(length).decode("latin-1"))
        elif kind == _REF_NUMBER and length == 4 and not names:
            names.append(_numbered(path.name, struct.unpack(">i", file.read(4))[0]))
        if 0 < following < end:
            raise ValueError("a tag links backwards")
        at = following or end
    return names


def _check_directory(file: gzip.GzipFile | io.BufferedReader, at: int, size: int) -> None:
    """Check that the entries of the directory of tags, if any, are within the file."""
    if at <= 0:
        return
    if at > size - 16:
        raise ValueError("the directory of tags is after the end of the file")
    file.seek(at)
    kind, _, length, _ = struct.unpack(">iIii", file.read(16))
    if kind != _DIRECTORY or length < 0 or length % 16 or at + 16 + length > size:
        raise ValueError("the directory of tags is damaged")
    for *_, entry_size, place in struct.iter_unpack(">iIii", file.read(length)):
        if place >= 0 and (entry_size < 0 or place + 16 + entry_size > size):
            raise ValueError("the directory of tags has an entry after the end of the file")


def _numbered(name: str, number: int) -> str:
    """Return the name of part ``number`` of a recording that is split into files."""
    stem, dot, suffixes = name.partition(".")
    return f"{re.sub(r'-[0-9]+$', '', stem)}-{number}{dot}{suffixes}"
