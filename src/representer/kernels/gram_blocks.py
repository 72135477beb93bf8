"""Blocks of kernel values, computed by the backends of joblib."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar, cast

import joblib
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from representer.kernels.gram_transformer import as_array
from representer.kernels.kernel import Kernel
from representer.printable import reason, say

Place = TypeVar("Place", bound=Hashable)
ATTEMPTS = 3  # in succession without a finished block
_QUEUE = 16  # blocks per worker that may wait to be stored, which bounds the memory
_ONE: Any = 1  # block per task; joblib declares a string
_lock = threading.Lock()
_running: list[int] = []  # torch's number of threads before each block that this process computes
_limits: threadpool_limits


def compute_blocks(
    kernel: Kernel,
    places: Iterable[Place],
    select: Callable[[Place], tuple[Any, Any | None]],
    n_jobs: int | None,
) -> Iterator[tuple[Place, np.ndarray]]:
    """Yield blocks of kernel values in the order in which they are finished.

    The backend is that of ``joblib.parallel_config``. Each block is computed on one thread, so its
    bits do not depend on the number of threads, processes and machines. The blocks that are missing
    after the loss of a worker are computed by new workers.

    Args:
        kernel: The kernel.
        places: A name for each block.
        select: Returns the arguments of the kernel for a block.
        n_jobs: Number of processes, as in joblib.

    Raises:
        Exception: An error of the kernel, or of the backend after `ATTEMPTS` attempts.
    """
    waiting, attempt = dict.fromkeys(places), 0
    while waiting:
        failure: Exception | None = None
        try:
            for place, values in _run(kernel, list(waiting), select, n_jobs):
                if isinstance(values, Exception):
                    failure = values
                    break
                yield place, values
                del waiting[place]
                attempt = 0
        except Exception as error:  # of the backend: errors of the kernel are returned
            attempt += 1
            if attempt == ATTEMPTS:
                raise
            lost = reason(error) if str(error) else type(error).__name__
            say(f"workers are started again for {len(waiting)} blocks ({lost})")
        if failure is not None:
            raise failure


def _run(
    kernel: Kernel,
    places: list[Place],
    select: Callable[[Place], tuple[Any, Any | None]],
    n_jobs: int | None,
) -> Iterator[tuple[Place, np.ndarray | Exception]]:
    backend, _ = joblib.parallel.get_active_backend()
    can_stream = getattr(backend, "supports_return_generator", False)  # Ray's cannot
    return_as = "generator_unordered" if can_stream else "list"
    with joblib.Parallel(n_jobs=n_jobs, return_as=return_as, batch_size=_ONE) as parallel:
        size = _QUEUE * max(1, cast(int, parallel._effective_n_jobs()))
        rest = iter(places)
        while some := list(islice(rest, size)):
            jobs = (joblib.delayed(block_values)(kernel, *select(place), place) for place in some)
            yield from cast(Iterator[Any], parallel(jobs))


def block_values(
    kernel: Kernel, X: Any, Y: Any | None, place: Place
) -> tuple[Place, np.ndarray | Exception]:
    """Return the place of a block with its values in float64, or with the error of the kernel."""
    try:
        with _one_thread():
            return place, np.ascontiguousarray(as_array(kernel(X, Y)), dtype=np.float64)
    except Exception as error:
        return place, error


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit this process to one thread for each block that one of its threads computes."""
    global _limits
    with _lock:
        if not _running:
            _limits = threadpool_limits(1)  # of NumPy's products
        _running.append(_running[0] if _running else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            before = _running.pop()
            if not _running:
                torch.set_num_threads(before)
                _limits.restore_original_limits()
