"""Large Gram matrices, block by block into a memory-mapped file, resumable after a kill."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
from torch import Tensor

from representer.errors import ArgumentError
from representer.kernels.gram_journal import Journal, alone, fingerprint
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
    fingerprint of the kernel and the objects and the checksum of every block that is done: called
    again after a kill, the function computes what is missing or torn; a finished file is returned.
    Without Y only the blocks on and above the diagonal are computed. A call on a file that another
    process is writing waits for it.

    Args:
        kernel: The kernel.
        X: N objects.
        Y: M objects, or None for X itself.
        out: The file.
        block: Objects in a block.
        n_jobs: Number of processes, as joblib counts them.

    Returns:
        The matrix ``(N, M)``, float64, mapped read-only.

    Raises:
        ArgumentError: If the file or its journal belongs to another kernel or other objects, or an
            argument has no meaning.
    """
    if type(block) is not int or block < 1:
        raise ArgumentError("block", block, "a whole number from 1 on")
    rows = _objects(X)
    columns = rows if Y is None else _objects(Y)
    path, shape = Path(out), (len(rows), len(columns))
    if not len(rows) * len(columns):
        raise ArgumentError("X" if not len(rows) else "Y", [], "at least one object")
    mark = fingerprint(kernel, rows, None if Y is None else columns, block)
    with alone(path):
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
    """Compute the blocks that are missing in the file."""
    columns, is_square = (rows, True) if others is None else (others, False)
    journal = Journal.open(path, mark)
    fresh = not path.exists()
    matrix = np.lib.format.open_memmap(
        path, "w+" if fresh else "r+", np.float64, None if not fresh else shape
    )
    if matrix.shape != shape or matrix.dtype != np.float64:
        raise ArgumentError("out", str(path), f"a file of float64 {shape}", hint="Delete it.")
    done = {} if fresh else journal.checksums
    missing = [
        corner
        for corner in _corners(shape, block, upper=is_square)
        if corner not in done or done[corner] != _checksum(_part(matrix, corner, block))
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
        matrix.flush()  # the journal must not be ahead of the matrix
        journal.add((i, j), _checksum(values))


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
