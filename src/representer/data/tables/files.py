"""Opening of regular files, and reading of text files as physical lines."""

from __future__ import annotations

import bz2
import codecs
import difflib
import gzip
import io
import lzma
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from representer.checks import parse_number
from representer.errors import ArgumentError, DataError, reason

# Division of the rows of a table into blocks, so that a table may be larger than memory.

Row = TypeVar("Row", bound=Sequence[object])
ROW = 100  # characters that take as much memory as a row without its content


class BlockSize(NamedTuple):
    """Number of characters that end a block; a row counts 100 more than its cells have."""

    head: int = 1 << 20  # of the first block, from which properties such as the header are detected
    rest: int = 1 << 20  # of each other block


_AGAIN = "Write or download the file again."  # one of texts, graphs or vectors
SMALL = BlockSize()
DETECTION = BlockSize(head=64 << 20)
WHOLE = BlockSize(head=1 << 62)


MOST_DROPPED = 100_000  # rows that follow each other, such as blank lines: each is kept to be named


def blocks(
    rows: Iterable[tuple[int, Row]], size: BlockSize, path: Path
) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows with their lines, in order, in blocks.

    A text in place of a row is the reason for which it is dropped; a row follows it in its block.
    """
    block, held, limit, dropped = list[tuple[int, Row]](), 0, size.head, 0
    for line, row in rows:
        dropped = dropped + 1 if isinstance(row, str) else 0
        if dropped > MOST_DROPPED:
            problem = f"more than {MOST_DROPPED:,} rows without content follow each other ({row})"
            raise DataError(problem, file=path, line=line, fix="Delete them.")
        block.append((line, row))
        held += ROW + sum(len(cell) for cell in row if isinstance(cell, str))
        if held >= limit and not isinstance(row, str):
            yield block
            block, held, limit = [], 0, size.rest
    if block:
        yield block


# Suggestions for messages: the available names, and the closest match.

_MOST, _LONGEST = 5000, 60  # choices that are compared, in time quadratic in their length


def listing(names: Sequence[str], most: int = 12) -> str:
    """Return the names in quotes, with long names and long lists truncated."""
    cut = (name if len(name) <= 40 else name[:37] + "..." for name in names[:most])
    shown = ", ".join(map(repr, cut))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """Return ``"Did you mean 'x'? "`` for the closest choice, or an empty string."""
    short = (choice for choice in choices[:_MOST] if len(choice) <= _LONGEST)
    by_fold = {choice.casefold(): choice for choice in short}
    near = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {by_fold[near[0]]!r}? " if near else ""


MAX_LINE = 1 << 24
"""Maximum number of characters in a physical line; a longer line is an error."""

MAX_EXPANSION = 250
"""Maximum expansion ratio of a compressed file, as a protection against decompression bombs; text
has 3 to 20. The first MiB is always read."""

_ALWAYS_READ, _HEAD = 1 << 20, 1 << 16
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSIONS = tuple(_OPENERS)
"""Suffixes of compressed text files, which are decompressed while reading."""

_CONTAINERS = {
    b"\x1f\x8b": ("gzip-compressed", ".gz"),
    **{b"BZh%d1AY&SY" % level: ("bzip2-compressed", ".bz2") for level in range(1, 10)},
    b"\xfd7zXZ\x00": ("xz-compressed", ".xz"),
    b"PK\x03\x04": ("a zip archive", ".zip"),
}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def uncompressed(path: Path) -> Path:
    """Return a path without the suffix of a compression, such as ``a.csv`` for ``a.csv.gz``."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def physical_lines(
    path: Path, encoding: str = "utf-8", *, longest: int | None = None
) -> Iterator[str]:
    r"""Yield the lines of a text file with their ends, which may be ``\n``, ``\r\n`` or ``\r``.

    A UTF-8 byte order mark is removed. ``.gz``, ``.bz2`` and ``.xz`` are decompressed, to at most
    ``MAX_EXPANSION`` times their size.

    Raises:
        ArgumentError: If Python has no such encoding.
    """
    codec, longest = _codec(encoding), longest or MAX_LINE
    with _refusals(path), _open(path) as binary:
        _refuse_binary(path, binary, codec)
        text = io.TextIOWrapper(
            binary, encoding="utf-8-sig" if codec == "utf-8" else codec, newline=""
        )
        number = 0
        try:
            while line := text.readline(longest):
                number += 1
                _check_line(path, number, line, longest)
                yield line
        except UnicodeError:
            raise _undecodable(path, codec) from None
        if not number:  # a byte order mark, or the first bytes of one
            raise DataError("holds no text", file=path, fix=_AGAIN)


def first_lines(path: Path, encoding: str, count: int) -> list[str]:
    """Return the first lines of a file, without their ends; one alone may be cut, all damaged."""
    with _refusals(path), _open(path) as binary:
        start = binary.read(_HEAD)
    text = start.decode(_codec(encoding), "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
    return (lines[:-1] if len(start) == _HEAD and len(lines) > 1 else lines)[:count]


def most_bytes(size: int) -> int:
    """Return how many decompressed bytes are read from a binary file of so many bytes."""
    return (64 << 20) + MAX_EXPANSION * size


def beside(path: Path, name: str) -> Path:
    """Return the file that a file names, which must be in the same folder, if it exists."""
    other = path.parent / name
    if not other.resolve().is_relative_to(path.parent.resolve()):
        problem = f"it names the file {name!r:.200} in another folder"
        raise DataError(problem, file=path, fix="Copy that file beside it, and name the copy.")
    return regular_file(other) if os.path.lexists(other) else other


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading in binary mode; other files are rejected without blocking.

    Raises:
        DataError: If it is missing, a folder, not a regular file, or not readable.
    """
    regular_file(path)
    with _refusals(path):
        # without O_NONBLOCK, opening a pipe that replaced the file after the check would block
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise _irregular(path)
        return file


def regular_file(path: Path) -> Path:
    """Return the path if it is a regular file."""
    with _refusals(path):
        try:
            str(path).encode()
        except UnicodeEncodeError:  # JSON and YAML files could not contain the name
            fix = "Rename the file or folder."
            raise DataError("the path is not valid UTF-8", file=path, fix=fix) from None
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            siblings = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
            fix = did_you_mean(path.name, siblings) + "Pass the path of an existing file."
            raise DataError("there is no such file", file=path, fix=fix) from None
        except ValueError:  # a NUL in the path
            raise DataError("is not a path", file=repr(str(path))) from None
        if stat.S_ISDIR(mode):
            raise DataError("is a folder", file=path, fix="Pass the path of a file in it.")
        if not stat.S_ISREG(mode):
            raise _irregular(path)
    return path


def _irregular(path: Path) -> DataError:
    return DataError("is not a regular file", file=path, fix="Write its content to a file first.")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Convert errors of the system and of the decompressors to a DataError."""
    try:
        yield
    except PermissionError:
        fix = "Change its permissions, or read a copy of it."
        raise DataError("this user has no permission to read it", file=path, fix=fix) from None
    except EOFError:
        fix = "Download or create the file again."
        raise DataError("the compressed file ends too early", file=path, fix=fix) from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        fix = "Download or create the file again; its suffix must match its content."
        raise DataError(f"cannot be read: {reason(error)}", file=path, fix=fix) from None


def _codec(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # raises an error for codecs that are not for text, such as hex
    except (LookupError, ValueError):
        expected = "the name of a text encoding, such as 'utf-8' or 'latin-1'"
        raise ArgumentError("encoding", encoding, expected) from None
    return "utf-8" if codec == "utf-8-sig" else codec


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise DataError("is empty (0 bytes)", file=path, fix=_AGAIN)
        opener = _OPENERS.get(path.suffix.lower())
        if opener is None:
            yield file
            return
        with opener(file) as stream:
            limit = max(_ALWAYS_READ, MAX_EXPANSION * size)
            yield io.BufferedReader(Limited(stream, limit, path), 1 << 16)


class Limited(io.RawIOBase):
    """A decompressed stream that raises an error after more than ``limit`` bytes."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int, path: Path) -> None:
        self._stream, self._left, self._path = stream, limit, path

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and count the bytes."""
        data = self._stream.read(len(buffer))
        self._left -= len(data) + ROW * data.count(b"\n")  # of equal lines, most memory is rows
        if self._left < 0:
            raise DataError(
                f"expands to more than {MAX_EXPANSION} times its size, with {ROW} bytes more for "
                "each line",
                file=self._path,
                fix="Decompress it first if this is intended.",
            )
        buffer[: len(data)] = data
        return len(data)


def _refuse_binary(path: Path, binary: io.BufferedReader, codec: str) -> None:
    head = binary.peek(16)[:16]
    if not head:
        raise DataError("holds no data once decompressed", file=path, fix=_AGAIN)
    for magic, (what, suffix) in _CONTAINERS.items():
        if head.startswith(magic):
            fix = f"Decompress it, or rename it to {path.name}{suffix}."
            if suffix not in COMPRESSIONS:
                fix = "Unpack it and pass the file inside."
            raise DataError(f"is {what}, not plain text", file=path, fix=fix)
    if codec == "utf-8" and head.startswith(_WIDE):
        is_32 = head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
        fix = f'Save it as UTF-8, or pass encoding="utf-{32 if is_32 else 16}".'
        raise DataError("is in UTF-16 or UTF-32, not UTF-8", file=path, fix=fix)


def _check_line(path: Path, number: int, line: str, longest: int) -> None:
    if "\0" in line:
        raise DataError(
            f"a NUL byte at character {line.index(chr(0)) + 1}", file=path, line=number,
            fix='This is not plain text; if it is UTF-16, pass encoding="utf-16".',
        )  # fmt: skip
    if len(line) == longest and line[-1] not in "\r\n":
        raise DataError(
            f"longer than {longest:,} characters", file=path, line=number,
            fix="Is this the right file? Each line is one document.",
        )  # fmt: skip


def _undecodable(path: Path, codec: str) -> DataError:
    """Read the file again to find the byte and line that cannot be decoded.

    The text wrapper decodes ahead, so its error has neither.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    read, line, after_return = 0, 1, False
    with _open(path) as binary:
        while True:
            chunk = binary.read(1 << 16)
            first = read - len(decoder.getstate()[0])
            problem = ""
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode(codec, errors="replace")
                byte = error.object[error.start]
                problem = f"byte 0x{byte:02x} at offset {first + error.start} is not {codec}"
            except UnicodeError as error:  # such as UTF-16 without its byte order mark
                text, problem = "", f"is not {codec} ({error})"
            # \r\n is one line end, also across two chunks
            line += text.count("\n") + text.count("\r") - text.count("\r\n")
            line -= after_return and text.startswith("\n")
            after_return = text.endswith("\r") if text else after_return
            if problem:
                fix = 'Save the file as UTF-8, or name its encoding: encoding="latin-1".'
                return DataError(problem, file=path, line=line, fix=fix)
            if not chunk:
                return DataError(f"is not {codec}", file=path)
            read += len(chunk)


# Protection against formula injection in CSV files.

GUARDED = "=+-@\t\r'"  # one of them begins what `guard_formula` changes
# Signs alone, such as the label "--", are not formulas.
_FORMULA = re.compile(r"'*[=+\-@\t\r].*\w", re.DOTALL)


def guard_formula(cell: str) -> str:
    """Return a cell of a CSV file, prefixed with an apostrophe if it could be run as a formula.

    Spreadsheet programs run a cell as a formula if it begins with ``=``, ``+``, ``-``, ``@``, a tab
    or a carriage return and contains a letter or digit. With an apostrophe as a prefix it is text.
    Numbers and labels of signs alone, such as ``+`` and ``--``, are not changed. A cell that is
    already like a guarded one gets a second apostrophe, so :func:`unguard_formula` restores every
    cell.
    """
    return f"'{cell}" if _FORMULA.match(cell) and parse_number(cell) is None else cell


def unguard_formula(cell: str) -> str:
    """Undo :func:`guard_formula`."""
    return cell[1:] if cell.startswith("'") and guard_formula(cell) != cell else cell


# The format of a file by its suffix: every reader asks here, and so does the guess of a task.

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "workbook"),
    **dict.fromkeys((".sdf", ".sd", ".mol"), "sdf"), **dict.fromkeys((".smi", ".smiles"), "smiles"),
    ".npz": "npz", ".mat": "mat", ".ts": "ts",
    **dict.fromkeys((".fasta", ".fa", ".fna", ".ffn", ".faa", ".frn"), "fasta"),
    **dict.fromkeys((".fastq", ".fq"), "fastq"),
    **dict.fromkeys((".gb", ".gbk", ".genbank"), "genbank"),
    **dict.fromkeys((".fif", ".edf", ".bdf", ".vhdr", ".set"), "mne"),
    # any text, whose content tells what it is; the suffix may name a part of the data
    **dict.fromkeys(("", ".txt", ".text", ".tab", ".dat", ".data", ".tokens", ".raw"), "lines"),
    **dict.fromkeys((".train", ".valid", ".val", ".dev", ".test"), "lines"),
}  # fmt: skip
TABLES = [suffix for suffix, fmt in FORMATS.items()
          if fmt in ("csv", "tsv", "jsonl", "parquet", "workbook")]  # fmt: skip
TASKS = {
    "ts": "series",
    **dict.fromkeys(("fasta", "fastq", "genbank"), "sequence"),
    "npz": "signal",
    "mat": "signal",
    "mne": "signal",
    "sdf": "molecule",
    "smiles": "molecule",
}
"""The task of a format, where it has one."""


def format_of(path: Path) -> str | None:
    """Return the format of a file by its suffix, without that of a compression; None if unknown."""
    return FORMATS.get(uncompressed(path).suffix.lower())


# Reading of arrays from ``.npz`` files, without pickles and with checked sizes.

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
