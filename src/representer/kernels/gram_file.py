"""Large Gram matrices, written block by block to a memory-mapped file, resumable after a kill."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib.hashing import NumpyHasher
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.kernels.gram_blocks import compute_blocks
from representer.kernels.gram_journal import Journal, locked
from representer.kernels.graphs import read_graphs
from representer.kernels.kernel import Kernel
from representer.kernels.matrix_file import Corner, MatrixFile, checksum
from representer.requirements import check_integer


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
    or Ray (``joblib.parallel_config``), each block on one thread: the file has the same bits for
    any number of processes and machines of one kind. The blocks of a lost worker are computed by
    another one. Only this process writes the file, and another call for it prints a line and waits.

    A journal beside the file, ``OUT.journal``, holds a fingerprint of the kernel and the objects,
    and the checksum of every finished block. Called again after an interruption, the function
    computes the missing or damaged blocks, or all of them if the file has the wrong size; a
    finished file is returned unchanged. Without Y, only the blocks on and above the diagonal are
    computed.

    The fingerprint includes parameters, weights and objects. Functions and classes of a user are
    identified by name and source; a lambda or a function inside a function has no name and is
    refused.

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
        StorageError: If the file cannot be written, as on a full disk.
        KindError: If the kernel or an object cannot be fingerprinted, such as a lambda.
    """
    check_integer("block", block)
    rows = _objects(kernel, X)
    columns = rows if Y is None else _objects(kernel, Y, "Y")
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
    matrix, done = MatrixFile.open(path, shape), journal.checksums
    if matrix is None:
        matrix, done = MatrixFile.create(path, shape), {}

    def is_missing(corner: Corner) -> bool:
        if corner not in done:
            return True
        (i, j), size = corner, _size(corner, shape, block)
        if matrix.checksum(corner, size) != done[corner]:
            return True
        return is_square and matrix.checksum((j, i), size, transposed=True) != done[corner]

    def select(corner: Corner) -> tuple[Any, Any | None]:
        i, j = corner
        is_diagonal = is_square and i == j
        return rows[i : i + block], None if is_diagonal else columns[j : j + block]

    missing = filter(is_missing, _corners(shape, block, upper=is_square))
    for (i, j), values in compute_blocks(kernel, missing, select, n_jobs):
        mirrored = [((j, i), values.T)] if is_square and i != j else []
        matrix.write(((i, j), values), *mirrored)  # before the journal entry
        journal.add((i, j), checksum(values))


def _corners(shape: tuple[int, int], block: int, upper: bool) -> Iterator[tuple[int, int]]:
    for i in range(0, shape[0], block):
        for j in range(i if upper else 0, shape[1], block):
            yield i, j


def _size(corner: Corner, shape: tuple[int, int], block: int) -> tuple[int, int]:
    return min(block, shape[0] - corner[0]), min(block, shape[1] - corner[1])


def _objects(kernel: Kernel, X: Iterable[Any], name: str = "X") -> Any:
    """Return objects that can be indexed; graphs are read here, once and not for every block."""
    if kernel.objects == "graphs":
        return read_graphs(X, name).items
    if isinstance(X, (Tensor, np.ndarray)):
        return X
    return X if isinstance(X, Sequence) else list(X)


def fingerprint(kernel: Kernel, *contents: Any) -> str:
    """Return a digest of a kernel and its objects, and of the versions that compute the values.

    Raises:
        KindError: If something in them has no name or content that identifies it.
    """
    versions = [sys.version_info[:2], torch.__version__, np.__version__]
    try:
        return str(_Hasher("sha256").hash([kernel, contents, versions]))
    except Exception as error:  # an object's own `__getstate__` may raise anything
        hint = f"A function must be defined by `def` in a module. ({error})"
        expected = "parameters and objects that identify the values of a Gram matrix on disk"
        raise KindError("kernel, X or Y", "not identifiable", expected, hint=hint) from None


class _Hasher(NumpyHasher):
    """joblib's hash of values, which takes tensors by value and a user's code by its source."""

    def save(self, obj: Any) -> None:
        if isinstance(obj, Tensor):
            value = obj.detach().cpu().contiguous().resolve_conj().resolve_neg()
            about = str(obj.dtype), tuple(obj.shape), obj.requires_grad
            obj = "tensor", *about, value.view(-1).view(torch.uint8).numpy()
        elif obj is type(None):  # which joblib looks for among the names of builtins
            obj = "NoneType"
        elif isinstance(obj, (type, types.FunctionType)) and not _is_installed(obj.__module__):
            super().save(inspect.getsource(obj))
        super().save(obj)


def _is_installed(module: str | None) -> bool:
    """Return True if a module belongs to Python, to this library or to an installed package."""
    top = str(module).partition(".")[0]
    if top == "__main__":  # a user's code, though a test runner or notebook started it
        return False
    if top in sys.stdlib_module_names or top == "representer":
        return True
    file = Path(str(getattr(sys.modules.get(top), "__file__", None)))
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts)
