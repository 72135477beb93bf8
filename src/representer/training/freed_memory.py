"""Keep freed memory for the next training step instead of returning it to the system.

Every step allocates and frees the same large tensors. By default glibc returns large blocks to the
system immediately, and the system zeroes every page again at the next allocation: with a gradient
of 40 MB this costs more than a fifth of a step. With this setting the process keeps its peak memory
until it ends, so use it only in processes that do nothing but train.
"""

from __future__ import annotations

import ctypes
import platform
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants of malloc.h
_SIZES = (2**30, 2**25)  # some versions of glibc accept at most the second
_USUAL = 2**17  # glibc's own


def keep_freed_memory() -> bool:
    """Make this process reuse freed memory.

    Call it only in a process that does nothing but train: the setting holds until the process ends.

    Returns:
        True if the setting took effect, which requires Linux with glibc.
    """
    return _set(_SIZES)


def return_freed_memory() -> bool:
    """Return freed memory to the system from now on, and what is free already.

    Where data leave little room, the largest memory counts, and not the time of a step.

    Returns:
        True as for `keep_freed_memory`.
    """
    if not _set((_USUAL,)):
        return False
    ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    return True


def _set(sizes: tuple[int, ...]) -> bool:
    """Set both thresholds to the first size that is accepted."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    takes = [
        any(mallopt(which, size) for size in sizes) for which in (_MMAP_THRESHOLD, _TRIM_THRESHOLD)
    ]
    return all(takes)
