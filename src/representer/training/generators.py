"""Random generators, derived from one seed and a name for each use.

Initialization, data order and dropout use separate generators, so that a change in one does not
affect the others. The order is a function of (seed, epoch) and needs no state; dropout uses torch's
global generator, whose state is part of every checkpoint.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive(seed: int, *names: str | int) -> int:
    """Return the seed of one use, independent of machine and version.

    Args:
        seed: Seed of the run.
        names: Name of the use, for example ``"order", epoch``.
    """
    text = repr((seed, *names)).encode("utf-8")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


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
