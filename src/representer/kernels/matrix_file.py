"""A matrix in an ``.npy`` file, read and written in blocks without mapping the file into memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from representer.errors import StorageError

Corner = tuple[int, int]


@dataclass(frozen=True)
class MatrixFile:
    """A file of float64 values in C order.

    Attributes:
        path: The file.
        shape: Rows and columns.
        start: Bytes before the first value.
    """

    path: Path
    shape: tuple[int, int]
    start: int

    @staticmethod
    def open(path: Path, shape: tuple[int, int]) -> MatrixFile | None:
        """Open a file; return None if it is missing or is not a file of such a matrix."""
        try:
            matrix = np.lib.format.open_memmap(path, "r")
        except (FileNotFoundError, EOFError, ValueError):
            return None
        if matrix.shape != shape or matrix.dtype != np.float64 or np.isfortran(matrix):
            return None
        is_whole = path.stat().st_size == matrix.offset + matrix.nbytes
        return MatrixFile(path, shape, matrix.offset) if is_whole else None

    @staticmethod
    def create(path: Path, shape: tuple[int, int]) -> MatrixFile:
        """Replace a file by one of zeros, which takes no space on the disk yet.

        Raises:
            StorageError: The file cannot be written.
        """
        with _storage_errors(path):
            path.unlink(missing_ok=True)  # a mapping of the old file stays valid
            matrix = np.lib.format.open_memmap(path, "w+", np.float64, shape)
        return MatrixFile(path, shape, matrix.offset)

    def checksum(self, corner: Corner, shape: tuple[int, int], *, transposed: bool = False) -> int:
        """Return the checksum of a block ``shape``, or of the block whose transpose has it."""
        rows, columns = reversed(shape) if transposed else shape
        values = np.empty((rows, columns))
        with self.path.open("rb", buffering=0) as file:
            for i, row in enumerate(values):
                file.seek(self._position(corner[0] + i, corner[1]))
                file.readinto(row.data)
        return checksum(values.T if transposed else values)

    def write(self, *parts: tuple[Corner, np.ndarray]) -> None:
        """Write blocks and wait until they are on the disk.

        Raises:
            StorageError: They cannot be written.
        """
        with _storage_errors(self.path), self.path.open("r+b", buffering=0) as file:
            for (top, left), values in parts:
                for i, row in enumerate(np.ascontiguousarray(values)):
                    file.seek(self._position(top + i, left))
                    _write_all(file.fileno(), row.tobytes())
            os.fsync(file.fileno())

    def _position(self, i: int, j: int) -> int:
        return self.start + 8 * (i * self.shape[1] + j)


def checksum(values: np.ndarray) -> int:
    """Return the CRC-32 of the values in C order."""
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error
