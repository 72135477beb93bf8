"""Which backend the ops of a block of code use, and what they chose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Choice:
    """What one call of an op ran on.

    Attributes:
        op: Name of the op.
        backend: The backend that ran.
        obstacles: Of every backend why it could not run, "" for those that could, fastest first.
    """

    op: str
    backend: str
    obstacles: dict[str, str]

    def __str__(self) -> str:
        others = [
            f"{name}: {obstacle or 'ready'}"
            for name, obstacle in self.obstacles.items()
            if name != self.backend
        ]
        return f"{self.op} runs on {self.backend} ({'; '.join(others)})"


_chosen: list[str | None] = [None]
_recorders: list[list[Choice]] = []


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


def record(op: str, backend: str, obstacles: dict[str, str]) -> None:
    """Tell those who listen what a call of an op runs on."""
    for choices in _recorders:
        choices.append(Choice(op, backend, obstacles))


def is_recording() -> bool:
    """Whether anybody listens."""
    return bool(_recorders)


def explain_backend(layer: nn.Module, *arguments: Any) -> list[Choice]:
    """Run a layer and say which backend each of its op calls took, and why not the others.

    Args:
        layer: Any module that uses ops of this library.
        *arguments: What it is called with.

    Returns:
        One ``Choice`` a call, in order; empty if no op was called. They print as a sentence.

    Raises:
        BackendError: If a backend asked for by ``use_backend`` cannot run.
    """
    choices: list[Choice] = []
    _recorders.append(choices)
    try:
        with torch.no_grad():
            layer(*arguments)
    finally:
        _recorders.pop()
    return choices
