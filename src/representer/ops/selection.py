"""Which backend the ops of a block of code use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_chosen: list[str | None] = [None]


def chosen_backend() -> str | None:
    """Return the backend that ``use_backend`` asked for, or None."""
    return _chosen[-1]


@contextmanager
def use_backend(name: str | None) -> Iterator[None]:
    """Make every op inside the block use one backend; it raises where that one cannot run.

    Args:
        name: For example ``"reference"``; None lets each op choose.
    """
    _chosen.append(name)
    try:
        yield
    finally:
        _chosen.pop()
