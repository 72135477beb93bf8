"""What the three recipes have in common: refusing options that they lack, and one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from representer.errors import ArgumentError
from representer.tasks.recipe import Request

CHOICES = ("datasets", "cells", "filter_lengths", "lengths", "vectors")


def refuse_others(request: Request, known: Sequence[str]) -> None:
    """Refuse choices that a recipe does not have.

    Args:
        request: What was asked.
        known: Names of `Request` that the recipe heeds.

    Raises:
        ArgumentError: If another one was made.
    """
    for name in CHOICES:
        if name not in known and getattr(request, name):
            raise ArgumentError(name, getattr(request, name), "none, for this recipe")


def chosen(name: str, asked: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return what was asked for, or all there is.

    Raises:
        ArgumentError: If something was asked for that there is not.
    """
    for each in asked:
        if each not in known:
            raise ArgumentError(name, each, f"some of {', '.join(known)}")
    return tuple(asked) or tuple(known)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch take one thread within: these networks are too small for more.

    Numbers too small to be normal are slow on processors, and mean nothing here; they are 0 within.
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
