"""Kernels as scikit-learn transformers, from objects to rows of the Gram matrix."""

from __future__ import annotations

import copy
import errno
import inspect
import operator
import os
import sys
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from joblib.hashing import NumpyHasher
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from representer.checks import check_integer, is_integer
from representer.errors import ArgumentError, KindError, StorageError, say
from representer.jobs import Finished, Place, completed
from representer.kernels.graphs import read_graphs
from representer.kernels.kernel import Kernel, check_kernel, is_fitted
from representer.kernels.sequences import require_several
from representer.kernels.tree_kernels import read_trees


class KernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the transformers: input validation, names of features, scikit-learn tags."""

    kernel: Kernel
    kernel_: Kernel

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.kernel.objects != "vectors":  # lists of sequences are not 2-D arrays
            tags.no_validation = True
            tags.input_tags.two_d_array = False
        return tags

    def _objects(self, X: Any, *, reset: bool) -> Any:
        """Convert the objects to the input of the kernel; scikit-learn validates vectors."""
        check_kernel(self.kernel)
        if self.kernel.objects == "vectors":
            return validate_data(self, X, reset=reset, dtype=np.float64)
        X = X.to_data_list() if hasattr(X, "to_data_list") else X  # a Batch of PyG
        require_several(X, "objects")
        return X if isinstance(X, (Tensor, np.ndarray)) else list(X)

    def _fit_kernel(self, objects: Any) -> None:
        """Fit a copy of the kernel if it, or a kernel in it, must be fitted and is not."""
        self.kernel_ = self.kernel.comparing()
        if not is_fitted(self.kernel):
            made: Any = copy.deepcopy(self.kernel_)
            self.kernel_ = made.fit(objects)


class GramTransformer(KernelTransformer):
    """Transforms objects to their kernel values with the objects of ``fit``.

    ``make_pipeline(GramTransformer(k), SVC(kernel="precomputed"))`` is a classifier of the objects
    of k; in a grid search, the kernel's arguments are ``gramtransformer__kernel__order`` etc.

    Args:
        kernel: The kernel. One that must be fitted, such as :class:`TextKernel`, is fitted to the
            objects of ``fit``, unless it is fitted already; scikit-learn's clones never are.

    Attributes:
        X_fit_: The objects of ``fit``.
        kernel_: The fitted kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, X: Iterable[Any], y: Any = None) -> GramTransformer:
        """Store the objects."""
        self.X_fit_ = self._objects(X, reset=True)
        self._n_features_out = len(self.X_fit_)
        self._fit_kernel(self.X_fit_)
        return self

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Return the kernel values with the objects of ``fit`` ``(N, M)``."""
        check_is_fitted(self)
        return as_array(self.kernel_(self._objects(X, reset=False), self.X_fit_))

    def fit_transform(self, X: Iterable[Any], y: Any = None, **options: Any) -> np.ndarray:
        """Store the objects and return their Gram matrix, of which one half is computed."""
        self.fit(X, y)
        return as_array(self.kernel_(self.X_fit_))


def as_array(values: Tensor | np.ndarray) -> np.ndarray:
    """Return values of a kernel as a float64 array."""
    if isinstance(values, Tensor):
        return values.detach().cpu().double().numpy()
    return values


# Blocks of kernel values, computed by the backends of joblib.


def compute_blocks(
    kernel: Kernel, places: Iterable[Place], select: Callable[[Place], tuple[Any, Any | None]],
    n_jobs: int | None,
) -> Iterator[tuple[Place, np.ndarray]]:  # fmt: skip
    """Yield blocks of kernel values in the order in which they are finished, see `completed`.

    ``select`` returns the arguments of the kernel for a block, by its name in ``places``.
    """
    return completed(block_values, places, lambda name: (kernel, *select(name)), n_jobs, "blocks")


def block_values(kernel: Kernel, X: Any, Y: Any | None) -> np.ndarray:
    """Return the values of a block in float64."""
    return np.ascontiguousarray(as_array(kernel(X, Y)), dtype=np.float64)


# A Gram matrix on disk: an ``.npy`` file, and a journal of its finished blocks beside it.
#
# The journal is a JSON Lines file: the fingerprint of the matrix, then the corner and checksum of
# each finished block. A block reaches the disk before its line, and checksums are compared when a
# run continues, so that neither a kill nor damage leaves a wrong value. It is also the file that is
# locked.

MARK = "fingerprint"
Corner = tuple[int, int]
_HINT = "Choose another file, or delete this one and its journal."


@contextmanager
def locked(out: Path) -> Iterator[Path]:
    """Lock a matrix file for this call; report and wait for another call that holds the lock.

    The journal, which is returned, exists.

    Raises:
        StorageError: If the journal cannot be written, or a file is a symbolic link.
    """
    journal = out.with_name(f"{out.name}.journal")
    for path in (out, journal):  # a link may lead anywhere in a folder of someone else
        with _storage_errors(path):
            if path.is_symlink():
                raise OSError(errno.ELOOP, "it is a symbolic link")
    if out.exists() and not journal.exists():
        raise _not_written_here(out)
    with _storage_errors(out):
        journal.touch()  # the lock would also create the folder
    lock = FileLock(journal.resolve(), fallback_to_soft=False, preserve_lock_file=True)
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            say(f"{out} is being written by another call; waiting until it ends")
            lock.acquire()
    except OSError as error:  # some network file systems have no locks
        expected = f"a file on a file system with locks ({error.strerror})"
        raise ArgumentError("out", str(out), expected) from error
    try:
        yield journal
    finally:
        lock.release()


def blocks_of(journal: Path, out: Path, mark: str) -> Finished[Corner, int]:
    """Return the work list of a journal: the checksums of finished blocks by their corners."""
    work: Finished[Any, Any] = Finished(journal, _line, _entry)
    if not work.finished:
        if out.exists():
            raise _not_written_here(out)
        work.add(MARK, mark)
    if work.finished.get(MARK) != mark:
        expected = "the Gram matrix of this kernel, these objects and this block size"
        raise ArgumentError("out", str(out), expected, hint=_HINT)
    return work


def _line(corner: Corner | str, value: int | str) -> Any:
    return {MARK: value} if isinstance(corner, str) else [*corner, value]


def _entry(line: Any) -> tuple[Corner | str, int | str]:
    if isinstance(line, dict):
        return MARK, line[MARK]
    i, j, checksum = map(operator.index, line)
    return (i, j), checksum


def mapped(out: Path, shape: tuple[int, int]) -> tuple[np.memmap, bool]:
    """Map the file of a matrix, and return True if it had to be created or replaced."""
    try:
        matrix = np.lib.format.open_memmap(out, "r")  # "r+" would extend a truncated file
        size = matrix.offset + matrix.nbytes
        is_whole = (matrix.shape, matrix.dtype, out.stat().st_size) == (shape, np.float64, size)
        is_new = not is_whole or np.isfortran(matrix)
    except (FileNotFoundError, EOFError, ValueError):
        is_new = True
    with _storage_errors(out):
        if is_new:
            out.unlink(missing_ok=True)  # a mapping of the old file stays valid
            matrix = np.lib.format.open_memmap(out, "w+", np.float64, shape)
        else:
            matrix = np.lib.format.open_memmap(out, "r+")
        if hasattr(os, "posix_fallocate"):  # not of Windows and macOS
            with out.open("r+b") as file:  # on a full disk, a write to a mapped hole is fatal
                os.posix_fallocate(file.fileno(), 0, matrix.offset + matrix.nbytes)
    return matrix, is_new


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).data)


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error


def _not_written_here(out: Path) -> ArgumentError:
    expected = "a file written by this function, with its journal next to it"
    return ArgumentError("out", str(out), expected, hint=_HINT)


# Large Gram matrices, written block by block to a memory-mapped file, resumable after a kill.


def gram(
    kernel: Kernel, X: Iterable[Any], Y: Iterable[Any] | None = None, out: str | Path = "gram.npy",
    block: int = 256, n_jobs: int | None = None,
) -> np.ndarray:  # fmt: skip
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
    path = Path(out)
    if not len(rows) * len(columns):
        raise ArgumentError("X" if not len(rows) else "Y", [], "at least one object")
    mark = fingerprint(kernel, rows, None if Y is None else columns, block)
    with locked(path) as journal:
        _fill(kernel, rows, None if Y is None else columns, path, journal, block, mark, n_jobs)
    return np.lib.format.open_memmap(path, "r")


def _fill(
    kernel: Kernel, rows: Any, others: Any | None, out: Path, journal: Path, block: int, mark: str,
    n_jobs: int | None,
) -> None:  # fmt: skip
    """Compute the blocks that are missing from the file."""
    columns, is_square = (rows, True) if others is None else (others, False)
    work = blocks_of(journal, out, mark)
    matrix, is_new = mapped(out, (len(rows), len(columns)))
    done = {} if is_new else work.finished

    def tile(i: int, j: int) -> np.ndarray:
        return matrix[i : i + block, j : j + block]

    def is_missing(corner: tuple[int, int]) -> bool:
        i, j = corner
        tiles = [tile(i, j), tile(j, i).T] if is_square and i != j else [tile(i, j)]
        return corner not in done or any(_checksum(x) != done[corner] for x in tiles)

    def select(corner: tuple[int, int]) -> tuple[Any, Any | None]:
        i, j = corner
        is_diagonal = is_square and i == j
        return rows[i : i + block], None if is_diagonal else columns[j : j + block]

    corners = (
        (i, j)
        for i in range(0, len(rows), block)
        for j in range(i if is_square else 0, len(columns), block)
    )
    for (i, j), values in compute_blocks(kernel, filter(is_missing, corners), select, n_jobs):
        with _storage_errors(out):
            tile(i, j)[:] = values
            if is_square and i != j:
                tile(j, i)[:] = values.T
            matrix.flush()
        work.add((i, j), _checksum(values))


def _objects(kernel: Kernel, X: Iterable[Any], name: str = "X") -> Any:
    """Return objects that can be indexed; graphs are read here, once and not for every block."""
    if kernel.objects in ("graphs", "trees"):
        return (read_trees if kernel.objects == "trees" else read_graphs)(X, name).items
    if isinstance(X, (Tensor, np.ndarray)):
        return X
    return X if isinstance(X, Sequence) else list(X)


def fingerprint(kernel: Kernel, *contents: Any) -> str:
    """Return a digest of a kernel and its objects, and of the versions that compute the values."""
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


# Nyström features, an approximation with a few landmarks.

SMALLEST = 1e-12  # eigenvalues below this fraction of the largest are rounding errors


class Nystroem(KernelTransformer):
    r"""Transforms objects to vectors whose inner products approximate a kernel.

    .. math::
        z(x) = K_{mm}^{-1/2}\, k(m, x), \qquad \langle z(x), z(y) \rangle \approx k(x, y)

    with m landmarks drawn from the objects of ``fit``; exact if x or y is a landmark. The cost is
    linear in the number of objects. With ``block``, so many objects at a time are compared with the
    landmarks, each block on one thread of the processes of ``joblib.parallel_config``; the features
    have the same bits for any number of processes.

    Args:
        kernel: The kernel; it is fitted if it must be, as by :class:`GramTransformer`.
        n_components: Number of landmarks; all objects if there are fewer.
        random_state: Seed of the draw.
        block: Number of objects in a block; None for all at once in this process.
        n_jobs: Number of processes that compute blocks, as in joblib.

    Attributes:
        components_: The landmarks.
        component_indices_: Their indices among the objects of ``fit``.
        kernel_: The fitted kernel.
        normalization_: The inverse root of their Gram matrix.

    Raises:
        ArgumentError: If `fit` gets no object, or a number is not positive.

    References:
        Williams and Seeger, Using the Nyström Method to Speed Up Kernel Machines, NeurIPS 2000.
    """

    def __init__(
        self, kernel: Kernel, n_components: int = 100, random_state: int | None = None,
        block: int | None = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.block = block
        self.n_jobs = n_jobs

    def fit(self, X: Iterable[Any], y: Any = None) -> Nystroem:
        """Draw the landmarks."""
        check_integer("n_components", self.n_components)
        objects = self._objects(X, reset=True)
        if not len(objects):
            raise ArgumentError("X", [], "at least one object")
        order = check_random_state(self.random_state).permutation(len(objects))
        self.component_indices_ = order[: self.n_components]
        if isinstance(objects, list):
            self.components_ = [objects[i] for i in self.component_indices_]
        else:
            self.components_ = objects[self.component_indices_]
        self._fit_kernel(objects)
        values, vectors = np.linalg.eigh(as_array(self.kernel_(self.components_)))
        kept = values > SMALLEST * max(values[-1], np.finfo(float).tiny)
        roots = np.where(kept, values, 1.0) ** -0.5 * kept
        self.normalization_ = (vectors * roots) @ vectors.T
        self._n_features_out = len(self.normalization_)
        return self

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Return the features ``(N, number of landmarks)``."""
        check_is_fitted(self)
        objects, block = self._objects(X, reset=False), self.block
        if block is None:
            return as_array(self.kernel_(objects, self.components_)) @ self.normalization_
        if not is_integer(block, 1):
            raise ArgumentError("block", block, "a positive integer or None")
        features = np.empty((len(objects), len(self.normalization_)))
        blocks = compute_blocks(
            self.kernel_, range(0, len(objects), block),
            lambda i: (objects[i : i + block], self.components_), self.n_jobs,
        )  # fmt: skip
        for i, values in blocks:
            features[i : i + block] = values @ self.normalization_
        return features
