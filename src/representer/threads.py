"""Threads of the CPU: how many compute, and how they wait for each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Rounds in a loop before a waiting thread of OpenMP sleeps, in place of some 10 ms. Where another
# process has the processor of the thread that is waited for, the loop only delays both.
ROUNDS = "1000"
# Entries of a matrix below which a second thread costs more than it saves: one factorizes 540 x 540
# in about half the time of two, and waits far less where other programs use the processors.
SMALL = 1 << 22


def wait_asleep() -> None:
    """Let threads of OpenMP sleep while they wait; without effect once torch is imported.

    Variables that the user has set keep their values.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", ROUNDS)


def busy_note() -> str:
    """Return advice for a machine whose processors other programs use; else nothing.

    BLAS waits in loops for its threads, which takes many times as long where others run.
    """
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if processors == 1 or load < processors / 2:
        return ""
    return (
        f"other programs keep the processors busy (load {load:.1f} on {processors}); --threads 1 "
        "may take a fraction of the time"
    )


def threads_for(entries: int) -> int | None:
    """Return the number of threads for algebra with matrices of so many entries; None: all."""
    return 1 if entries < SMALL else None


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Compute on this many threads within a block: torch, the core, and BLAS of numpy and scipy.

    Args:
        threads: Their number; None leaves all as they are.
    """
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _libraries(len(sys.modules)).limit(limits=threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the libraries of this process, found again once more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
