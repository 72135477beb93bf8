"""Random generators, derived from one seed and a name for each use.

Initialization, data order and dropout use separate generators, so that a change in one does not
affect the others. The order is a function of (seed, epoch) and needs no state; dropout uses torch's
global generator, whose state is part of every checkpoint.
"""

from __future__ import annotations

import ctypes
import os
import platform
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from representer import __version__
from representer.machine import derive


def generator(seed: int, *names: str | int) -> torch.Generator:
    """Return a generator on the CPU for one use, see `derive`."""
    return torch.Generator().manual_seed(derive(seed, *names))


@contextmanager
def initializing(seed: int) -> Iterator[None]:
    """Make parameters created in the block depend on the seed alone.

    The global random states are restored afterwards.
    """
    with preserved():
        # the name is hashed into the seed: renaming it changes the initial weights of every seed
        seed_all(derive(seed, "initialisation"))  # codespell:ignore initialisation
        yield


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the global random states after the block."""
    before = states()
    try:
        yield
    finally:
        restore(before)


def seed_all(seed: int) -> None:
    """Seed the global generators of torch (every device), numpy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def states() -> dict[str, Any]:
    """Return the global random states as tensors and numbers that a checkpoint can store."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    assert name == "MT19937"  # the default generator of numpy's legacy state
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return {
        "torch": torch.get_rng_state(),
        "cuda": cuda,
        "python": [version, torch.tensor(words, dtype=torch.int64), gauss],
        "numpy": [torch.from_numpy(np.array(keys)), int(position), int(has_gauss), float(cached)],
    }


def restore(saved: dict[str, Any]) -> None:
    """Restore the global random states that `states` returned."""
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(saved["cuda"][: torch.cuda.device_count()])
    version, words, gauss = saved["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    keys, position, has_gauss, cached = saved["numpy"]
    np.random.set_state(("MT19937", keys.numpy(), position, has_gauss, cached))


# Describe the environment that the results of a run depend on besides its settings.

_VARIABLES = ("MKL_CBWR", "OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG")


def fingerprint(device: torch.device | str = "cpu", processes: int = 1) -> dict[str, str]:
    """Describe the environment. Runs with equal descriptions are bit-identical."""
    device = torch.device(device)
    is_cuda = device.type == "cuda"
    return {
        "representer": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
        "processes": str(processes),
        **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the changes, for example ``["threads 2 → 4"]``."""
    names = [*before, *(name for name in now if name not in before)]
    return [
        f"{name} {before.get(name, '(unset)')} → {now.get(name, '(unset)')}"
        for name in names
        if before.get(name) != now.get(name)
    ]


# Keep freed memory for the next training step instead of returning it to the system.
#
# Every step allocates and frees the same large tensors. By default glibc returns large blocks to
# the system immediately, and the system zeroes every page again at the next allocation: with a
# gradient of 40 MB this costs more than a fifth of a step. With this setting the process keeps its
# peak memory until it ends, so use it only in processes that do nothing but train.

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants of malloc.h
_SIZES = (2**30, 2**25)  # some versions of glibc accept at most the second
_USUAL = 2**17  # glibc's own


def keep_freed_memory() -> bool:
    """Make this process reuse freed memory.

    Call it only in a process that does nothing but train: the setting holds until the process ends.
    Returned is whether the setting took effect, which requires Linux with glibc.
    """
    return _set(_SIZES)


def return_freed_memory() -> bool:
    """Return freed memory to the system from now on, and what is free already.

    Where data leave little room, the largest memory counts, and not the time of a step.
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
