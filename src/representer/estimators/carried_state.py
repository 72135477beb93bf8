"""The state of a recurrent model, carried from one segment of a text to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def detached(state: Any) -> Any:
    """Return a state of tensors, tuples and named tuples, detached from its graph."""
    return _like(state, lambda tensor: tensor.detach())


class CarriedState:
    """The state between the segments of an epoch, and in checkpoints.

    Args:
        example: ``example(rows)`` returns a state of the right form for this number of streams.

    Attributes:
        value: The state; None before the first segment of a text.
    """

    def __init__(self, example: Callable[[int], Any]) -> None:
        self.value: Any = None
        self._example = example

    def state_dict(self) -> list[Tensor] | None:
        """Return the tensors of the state for a checkpoint."""
        return None if self.value is None else [t.cpu().clone() for t in _tensors(self.value)]

    def load_state_dict(self, saved: list[Tensor] | None) -> None:
        """Continue from what `state_dict` returned."""
        if saved is None:
            self.value = None
            return
        tensors = iter(saved)
        example = self._example(_rows(saved))
        self.value = _like(example, lambda old: next(tensors).to(old))


def _rows(saved: list[Tensor]) -> int:
    if not saved:
        return 1  # a network without a memory
    return int(saved[0].shape[1])  # layers first, then streams, as in torch.nn.LSTM


def _tensors(state: Any) -> list[Tensor]:
    tensors: list[Tensor] = []
    _like(state, lambda tensor: tensors.append(tensor) or tensor)
    return tensors


def _like(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a state of the same form with each tensor changed, in a fixed order."""
    if isinstance(state, Tensor):
        return change(state)
    parts = [_like(part, change) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


@torch.no_grad()
def example_state(model: torch.nn.Module, rows: int) -> Any:
    """Return a state of a language model for a number of streams; no random state changes."""
    device = next(model.parameters()).device
    was_training = model.training
    try:
        return model.eval()(torch.zeros(1, rows, dtype=torch.int64, device=device)).state
    finally:
        model.train(was_training)
