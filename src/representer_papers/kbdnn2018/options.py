"""Runs of the three recipes: their presets, and one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

PRESETS = ("paper", "authors_code")


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread and flush denormal numbers to zero.

    The networks are too small to gain from more threads, and denormal numbers are slow.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
