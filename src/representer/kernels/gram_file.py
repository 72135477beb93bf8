"""Large Gram matrices, written block by block to a memory-mapped file, resumable after a kill."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
from torch import Tensor

from representer.errors import ArgumentError
from representer.kernels.fingerprint import fingerprint
from representer.kernels.gram_journal import Journal, locked
from representer.kernels.gram_transformer import as_array
from representer.kernels.kernel import Kernel


def gram(
    kernel: Kernel,
    X: Iterable[Any],
    Y: Iterable[Any] | None = None,
    out: str | Path = "gram.npy",
    block: int = 256,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Compute a Gram matrix into an ``.npy`` file, without holding it in memory.

    Blocks of ``block`` by ``block`` objects are computed through joblib, whose backend may be Dask
    or Ray (``joblib.parallel_config``). A journal beside the file, ``OUT.journal``, holds a
    fingerprint of the kernel and the objects, and the checksum of every finished block. Called
    again after an interruption, the function computes the missing or damaged blocks, or all of
    them if the file has the wrong size; a finished file is returned unchanged. Without Y, only the
    blocks on and above the diagonal are computed. A call waits while another call writes the file.

    The fingerprint includes functions, classes and modules with all that they use: weights,
    closures, defaults, globals and bytecode. Installed packages are identified by name and version.

    Args:
        kernel: The kernel.
        X: N objects.
        Y: M objects, or None for X itself.
        out: The file.
        block: Number of objects in a block.
        n_jobs: Number of processes, as in joblib.

    Returns:
        The matrix ``(N, M)``, float64, mapped read-only.

    Raises:
        ArgumentError: If the file or its journal belongs to another kernel or other objects, or an
            argument is invalid.
        KindError: If the kernel or an object cannot be fingerprinted, such as an open file.
    """
    if type(block) is not int or block < 1:
        raise ArgumentError("block", block, "a positive integer")
    rows = _objects(X)
    columns = rows if Y is None else _objects(Y)
    path, shape = Path(out), (len(rows), len(columns))
    if not len(rows) * len(columns):
        raise ArgumentError("X" if not len(rows) else "Y", [], "at least one object")
    mark = fingerprint(kernel, rows, None if Y is None else columns, block)
    with locked(path):
        _fill(kernel, rows, None if Y is None else columns, path, shape, block, mark, n_jobs)
    return np.lib.format.open_memmap(path, "r")


def _fill(
    kernel: Kernel,
    rows: Any,
    others: Any | None,
    path: Path,
    shape: tuple[int, int],
    block: int,
    mark: str,
    n_jobs: int | None,
) -> None:
    """Compute the blocks that are missing from the file."""
    columns, is_square = (rows, True) if others is None else (others, False)
    journal = Journal.open(path, mark)
    matrix = _opened(path, shape)
    done = journal.checksums
    if matrix is None:
        path.unlink(missing_ok=True)  # a mapping of the old file stays valid
        matrix, done = np.lib.format.open_memmap(path, "w+", np.float64, shape), {}
    missing = [
        (i, j)
        for i, j in _corners(shape, block, upper=is_square)
        if done.get((i, j)) != _checksum(_part(matrix, (i, j), block))
        or (is_square and done[i, j] != _checksum(_part(matrix, (j, i), block).T))
    ]
    jobs = (
        joblib.delayed(_values)(
            kernel,
            rows[i : i + block],
            None if is_square and i == j else columns[j : j + block],
            (i, j),
        )
        for i, j in missing
    )
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for (i, j), values in cast(Iterator[Any], parallel(jobs)):
        _part(matrix, (i, j), block)[:] = values
        if is_square and i != j:
            _part(matrix, (j, i), block)[:] = values.T
        matrix.flush()  # before the journal entry
        journal.add((i, j), _checksum(values))


def _opened(path: Path, shape: tuple[int, int]) -> np.memmap | None:
    """Open a matrix file; return None if it is missing or has the wrong size."""
    try:  # "r" first: "r+" would extend a truncated file with zeros
        matrix = np.lib.format.open_memmap(path, "r")
    except (FileNotFoundError, EOFError, ValueError):
        return None
    if matrix.shape != shape or matrix.dtype != np.float64 or np.isfortran(matrix):
        return None
    is_whole = path.stat().st_size == matrix.offset + matrix.nbytes
    return np.lib.format.open_memmap(path, "r+") if is_whole else None


def _values(
    kernel: Kernel, X: Any, Y: Any | None, corner: tuple[int, int]
) -> tuple[tuple[int, int], np.ndarray]:
    return corner, np.ascontiguousarray(as_array(kernel(X, Y)), dtype=np.float64)


def _corners(shape: tuple[int, int], block: int, upper: bool) -> Iterator[tuple[int, int]]:
    for i in range(0, shape[0], block):
        for j in range(i if upper else 0, shape[1], block):
            yield i, j


def _part(matrix: np.ndarray, corner: tuple[int, int], block: int) -> np.ndarray:
    return matrix[corner[0] : corner[0] + block, corner[1] : corner[1] + block]


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


def _objects(X: Iterable[Any]) -> Any:
    if isinstance(X, (Tensor, np.ndarray)):
        return X
    return X if isinstance(X, Sequence) else list(X)
