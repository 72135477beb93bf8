"""Select the backend of a block of code, and record the choices of the ops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Choice:
    """The backend of one call of an op.

    Attributes:
        op: Name of the op.
        backend: The backend that ran.
        unavailable: By backend, fastest first: why it cannot run, or "" if it can.
        kernel: Which of the backend's kernels ran and why, if it has several.
    """

    op: str
    backend: str
    unavailable: dict[str, str]
    kernel: str = ""

    def __str__(self) -> str:
        others = [
            f"{name}: {reason or 'ready'}"
            for name, reason in self.unavailable.items()
            if name != self.backend
        ]
        kernel = f", {self.kernel}" if self.kernel else ""
        return f"{self.op} runs on {self.backend}{kernel} ({'; '.join(others)})"


# A plain threading.local: of this and ContextVar, Dynamo traces and guards only this one.
_state = threading.local()


def chosen_backend() -> str | None:
    """Return the backend that ``use_backend`` sets in this thread, or None."""
    return getattr(_state, "backend", None)


def allows(backend: str) -> bool:
    """Return True if calls of this thread may use a backend without being recorded."""
    state = _state.__dict__
    return state.get("backend") in (None, backend) and not state.get("recorders")


@contextmanager
def use_backend(name: str | None) -> Iterator[None]:
    """Make every op of this thread use one backend inside the block, or raise if it cannot run.

    Args:
        name: For example ``"reference"``; None lets each op choose.
    """
    outer = chosen_backend()
    _state.backend = name
    try:
        yield
    finally:
        _state.backend = outer


def record(op: str, backend: str, unavailable: dict[str, str], kernel: str) -> None:
    """Add the choice of a call to every active ``explain_backend`` of this thread."""
    for choices in getattr(_state, "recorders", ()):
        choices.append(Choice(op, backend, unavailable, kernel))


def is_recording() -> bool:
    """Return True if ``explain_backend`` is active in this thread."""
    return bool(getattr(_state, "recorders", ()))


def explain_backend(layer: nn.Module, *arguments: Any) -> list[Choice]:
    """Run a layer and return the backend of each of its op calls, with the reasons.

    Args:
        layer: Any module that uses ops of this library.
        *arguments: Its inputs.

    Returns:
        One ``Choice`` per call, in order; empty if no op was called. Each prints as a sentence.

    Raises:
        BackendError: If a backend set by ``use_backend`` cannot run.
    """
    choices: list[Choice] = []
    outer = getattr(_state, "recorders", ())
    _state.recorders = (*outer, choices)
    try:
        with torch.no_grad():
            layer(*arguments)
    finally:
        _state.recorders = outer
    return choices
