"""Both paths of ``step()``, and layers with an input and a state that the fast one supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from representer.nn.recurrent import sequence_layer
from representer.nn.recurrent.core_calls import core_call

from .layers import LAYERS, batch, build
from .string_layers import build_string, string_batch

Step = tuple[Tensor, Any]
# cells whose plain filters the core multiplies
QUICK = [name for name in LAYERS if "CNN" not in name and name != "RKM gaussian"]


def general(layer: Any, x_t: Tensor, state: Any) -> Step:
    """Run a step on the general path."""
    with torch.enable_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_layer, "core_call", lambda *_: None)
        return layer.step(x_t, state)


def quick(layer: Any, x_t: Tensor, state: Any) -> Step | None:
    """Run a step on the fast path; return None if it does not support the call."""
    with torch.no_grad():
        return core_call(layer, x_t, state)


def assert_fast(layer: Any, x_t: Tensor, state: Any) -> Step:
    """Assert that the fast path runs and its output is that of the general path."""
    found = quick(layer, x_t, state)
    assert found is not None
    torch.testing.assert_close(found[0], general(layer, x_t, state)[0])
    return found


def ready(name: str = "RKM-LSTM", size: int = 2, **options: Any) -> tuple[Any, Tensor, Any]:
    """Return a kernel machine, an input and a state."""
    layer, x = build(name, **options), batch(2, size)
    return layer, x[1], layer.step(x[0])[1].detach()


def ready_string(name: str = "state gate", size: int = 2, **options: Any):
    """Return a string-kernel layer, an input and a state."""
    layer, x = build_string(name, **options), string_batch(2, size)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()  # biases too
    return layer, x[1], layer.step(x[0])[1].detach()


def spoil(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    """Return a function that changes the data of a parameter of a layer."""

    def of(layer: Any) -> None:
        parameter = layer.get_parameter(f"{name}_l0")
        parameter.data = change(parameter.data)

    return of


def strided(tensor: Tensor) -> Tensor:
    """Return the values in memory that is not contiguous."""
    return torch.stack((tensor, tensor), dim=-1)[..., 0]
