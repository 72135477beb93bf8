"""Helpers of the three recipes: checking options, and running on one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from representer.errors import ArgumentError
from representer.tasks.recipe import Request

CHOICES = ("datasets", "cells", "filter_lengths", "lengths", "vectors")


def refuse_others(request: Request, known: Sequence[str]) -> None:
    """Refuse options that a recipe does not support.

    Args:
        request: The request.
        known: Fields of `Request` that the recipe uses.

    Raises:
        ArgumentError: If another field is set.
    """
    for name in CHOICES:
        if name not in known and getattr(request, name):
            raise ArgumentError(name, getattr(request, name), "none, for this recipe")


def chosen(name: str, values: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the requested values, or all known ones if there are none.

    Raises:
        ArgumentError: If a value is unknown.
    """
    for value in values:
        if value not in known:
            raise ArgumentError(name, value, f"some of {', '.join(known)}")
    return tuple(values) or tuple(known)


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
