"""Access to a weight without DropConnect."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from torch.nn.utils import parametrize


def undropped(module: nn.Module, name: str) -> Any:
    """Return a weight, which may be None, as in evaluation mode."""
    if not parametrize.is_parametrized(module, name):
        return getattr(module, name)
    parts = cast(Any, module.parametrizations)[name]
    was_training = parts.training
    parts.eval()
    try:
        return getattr(module, name)
    finally:
        parts.train(was_training)
