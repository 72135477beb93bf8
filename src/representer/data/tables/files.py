"""Files of data: their formats by suffix, their opening, and limits of what they expand to."""

from __future__ import annotations

import bz2
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from representer.checks import parse_number
from representer.errors import DataError, reason

# Division of the rows of a table into blocks, so that a table may be larger than memory.

Row = TypeVar("Row", bound=Sequence[object])
ROW = 100  # characters that take as much memory as a row without its content


class BlockSize(NamedTuple):
    """Number of characters that end a block; a row counts 100 more than its cells have."""

    head: int = 1 << 20  # of the first block, from which properties such as the header are detected
    rest: int = 1 << 20  # of each other block


AGAIN = "Write or download the file again."  # one of texts, graphs or vectors
SMALL = BlockSize()
DETECTION = BlockSize(head=64 << 20)
WHOLE = BlockSize(head=1 << 62)


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


MAX_EXPANSION = 250
"""Maximum expansion ratio of a compressed file, as a protection against decompression bombs; text
has 3 to 20. The first MiB is always read."""

OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSIONS = tuple(OPENERS)
"""Suffixes of compressed text files, which are decompressed while reading."""


def uncompressed(path: Path) -> Path:
    """Return a path without the suffix of a compression, such as ``a.csv`` for ``a.csv.gz``."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


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
    with refusals(path):
        # without O_NONBLOCK, opening a pipe that replaced the file after the check would block
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise _irregular(path)
        return file


def regular_file(path: Path) -> Path:
    """Return the path if it is a regular file."""
    with refusals(path):
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
def refusals(path: Path) -> Iterator[None]:
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
