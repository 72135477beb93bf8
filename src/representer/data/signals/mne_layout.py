"""Checks of the sizes that a file of MNE declares, and of the files that it names.

The readers of MNE allocate declared sizes, follow cyclic links, and open referenced files. So the
tags of a FIF file, the variables of an EEGLAB file, and the header of another file are checked
first.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import struct
from pathlib import Path

from representer.data.signals.mat_layout import check_layout
from representer.data.tables.source import MAX_EXPANSION, Limited, beside, open_regular

_FILE_ID, _DIR_POINTER, _DIRECTORY, _REF_NUMBER, _REF_NAME = 100, 101, 102, 117, 118
_MAX_CHANNELS, _MAX_HEADER = 10_000, 1 << 24
_MAX_PARTS = 100  # files into which one recording is split


def check_fif(path: Path) -> None:
    """Check the tags of a FIF file, and of the files that continue it.

    Args:
        path: The file; ``.gz`` is decompressed.

    Raises:
        ValueError: If a tag declares more bytes than the file has, links backwards, or refers to a
            file that was read already.
        DataError: If it, or a file that continues it, is not a regular file, or in another folder.
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
            if (following := beside(current, name)).exists():
                waiting.append(following)


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


def check_brainvision(path: Path) -> None:
    """Check the files that the header of a BrainVision file names, and its number of channels.

    Raises:
        ValueError: If the header is too long, or declares too many channels.
        DataError: If a file is in another folder, or not a regular file.
    """
    with open_regular(path) as file:
        content = file.read(_MAX_HEADER + 1)
    if len(content) > _MAX_HEADER:
        raise ValueError(f"the header has more than {_MAX_HEADER:,} bytes")
    content = content.replace(b"\0", b"")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    named = [
        value for _, value in re.findall(r"(?im)^\s*(Data|Marker)File\s*[=:]\s*(.*?)\s*$", text)
    ]
    for name in (*named, f"{path.stem}.vmrk"):
        beside(path, name)
    for count in re.findall(r"(?im)^\s*NumberOfChannels\s*[=:]\s*(\d+)", text):
        _require_channels(int(count))


def check_eeglab(path: Path) -> None:
    """Check the variables of an EEGLAB file, and the file of samples that it names.

    Raises:
        ValueError: If a variable declares more than the file has, or there are too many channels.
        NotImplementedError: If the file has version 7.3.
        DataError: If the file of samples is in another folder, or not a regular file.
    """
    from scipy.io import loadmat

    with open_regular(path) as file:
        check_layout(file)
        content = loadmat(file, simplify_cells=True)
    for _ in range(2):  # a structure EEG, which may contain another one, or its fields alone
        content = content.get("EEG", content)
    data, size = content.get("data"), path.stat().st_size
    for name in {f"{path.stem}.fdt", data if isinstance(data, str) and data else path.name}:
        size += beside(path, name).stat().st_size if (path.parent / name).exists() else 0
    channels, *axes = (int(content.get(name, 1)) for name in ("nbchan", "pnts", "trials"))
    _require_channels(channels)
    require_plausible(math.prod(max(1, count) for count in (channels, *axes)), size)


def _require_channels(count: int) -> None:
    if count > _MAX_CHANNELS:
        raise ValueError(f"{count:,} channels are declared; at most {_MAX_CHANNELS:,} are read")


def require_plausible(samples: int, size: int) -> None:
    """Check that the number of samples is plausible for the size of the file.

    Args:
        samples: The samples of all channels.
        size: The size of the file in bytes.

    Raises:
        ValueError: If there are over ten million samples and more than a hundred per byte.
    """
    if samples > 10_000_000 + 100 * size:
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
