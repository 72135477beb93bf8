"""Keep freed memory for the next training step instead of returning it to the system.

Every step allocates and frees the same large tensors. By default glibc gives large blocks back to
the system at once, and the system clears every page again when the next step asks for it: with a
gradient of 40 MB that costs more than a fifth of a step. The process then holds what it needed at
its peak until it ends, so this is for processes that do nothing but train.
"""

from __future__ import annotations

import ctypes
import platform
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_SIZES = (2**30, 2**25)  # some versions of glibc take no more than the second


def keep_freed_memory() -> bool:
    """Make this process reuse the memory it frees.

    Call it only in a process that does nothing but train: the setting holds until the process ends.

    Returns:
        True if the setting took effect: on Linux with glibc only.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    takes = [
        any(mallopt(which, size) for size in _SIZES) for which in (_MMAP_THRESHOLD, _TRIM_THRESHOLD)
    ]
    return all(takes)
