"""The journal of a Gram matrix on disk: its fingerprint and finished blocks."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from representer.errors import ArgumentError
from representer.kernels.matrix_file import Corner
from representer.printable import say

_HINT = "Choose another file, or delete this one and its journal."


@dataclass
class Journal:
    """A JSON Lines file: the fingerprint, then the corner and checksum of each finished block.

    A line is valid if it ends with a line break and can be parsed; the first invalid line and all
    following ones are removed.

    Attributes:
        path: The file.
        checksums: The finished blocks.
    """

    path: Path
    checksums: dict[Corner, int]

    @staticmethod
    def open(matrix: Path, mark: str) -> Journal:
        """Open or start the journal of a matrix file.

        Raises:
            ArgumentError: If the file contains another matrix, or has no journal.
        """
        path = _journal_path(matrix)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        if not lines:
            if matrix.exists():
                raise _not_written_here(matrix)
            journal = Journal(path, {})
            journal._write({"fingerprint": mark}, "w")
            return journal
        if _read(lines[0]) != {"fingerprint": mark}:
            expected = "the Gram matrix of this kernel, these objects and this block size"
            raise ArgumentError("out", str(matrix), expected, hint=_HINT)
        entries = list(takewhile(_is_entry, map(_read, lines[1:])))
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines[: 1 + len(entries)]))
        return Journal(path, {(i, j): checksum for i, j, checksum in entries})

    def add(self, corner: Corner, checksum: int) -> None:
        """Record a finished block."""
        self._write([*corner, checksum], "a")

    def _write(self, entry: Any, mode: str) -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def locked(matrix: Path) -> Iterator[None]:
    """Lock a matrix file for this call; report and wait for another call that holds the lock.

    The lock is an operating-system lock of the journal, which is released when the process ends.

    Raises:
        ArgumentError: If the file has no journal, or cannot be locked.
    """
    path = _journal_path(matrix)
    if matrix.exists() and not path.exists():
        raise _not_written_here(matrix)
    with path.open("ab") as file:
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{matrix} is being written by another call; waiting until it ends")
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems have no locks
            expected = f"a file on a file system with locks ({error.strerror})"
            raise ArgumentError("out", str(matrix), expected) from error
        yield


def _read(line: bytes) -> Any:
    """Parse a line; return None if it is damaged."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 3 and all(type(n) is int for n in entry)


def _journal_path(matrix: Path) -> Path:
    return matrix.with_name(f"{matrix.name}.journal")


def _not_written_here(matrix: Path) -> ArgumentError:
    expected = "a file written by this function, with its journal next to it"
    return ArgumentError("out", str(matrix), expected, hint=_HINT)
