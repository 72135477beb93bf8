"""Blocks of kernel values, computed by the backends of joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from representer.jobs import Place, completed
from representer.kernels.gram_transformer import as_array
from representer.kernels.kernel import Kernel


def compute_blocks(
    kernel: Kernel,
    places: Iterable[Place],
    select: Callable[[Place], tuple[Any, Any | None]],
    n_jobs: int | None,
) -> Iterator[tuple[Place, np.ndarray]]:
    """Yield blocks of kernel values in the order in which they are finished, see `completed`.

    Args:
        kernel: The kernel.
        places: A name for each block.
        select: Returns the arguments of the kernel for a block.
        n_jobs: Number of processes, as in joblib.
    """
    return completed(block_values, places, lambda at: (kernel, *select(at)), n_jobs, "blocks")


def block_values(kernel: Kernel, X: Any, Y: Any | None) -> np.ndarray:
    """Return the values of a block in float64."""
    return np.ascontiguousarray(as_array(kernel(X, Y)), dtype=np.float64)
