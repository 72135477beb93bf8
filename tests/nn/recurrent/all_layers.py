"""Layers of every recurrent kind, for the tests of what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from representer import nn
from representer.nn.recurrent.sequence_layer import SequenceLayer

from .layers import BATCH, HIDDEN, INPUT, LAYERS, MIXED, TIME, build
from .string_layers import STRING_LAYERS, build_string

KBRN_LAYERS: dict[str, dict[str, Any]] = {
    "plain": {"normalize": False, "init": "random", "bandwidth": 1.0},
    "normalized": {},
    "shared": {"shared": True, "linear_term": True},
    "gaussian": {"green": "gaussian", "bandwidth": 0.7},
    "long": {"start": "orthogonal"},
    "own": {"green": torch.cos, "init": "random"},
    "batch": {"eval_statistics": "batch", "green": "relu"},  # its sequences affect each other
}
LENGTHS = (3, 6, 1, 6, 2)  # unsorted, with equals, some shorter than a window or an n-gram


def build_kbrn(name: str, **options: Any) -> nn.KBRN:
    """Return a layer of a row of ``KBRN_LAYERS`` in float64 and evaluation mode, after training."""
    torch.manual_seed(1)
    layer = nn.KBRN(INPUT, HIDDEN, **{"dtype": torch.float64, **KBRN_LAYERS[name], **options})
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for _ in range(3):
            x = batch_of(layer)
            layer(x.transpose(0, 1) if layer.batch_first else x)
    return layer.eval()


ALL: dict[str, Callable[..., SequenceLayer]] = {
    **{name: partial(build, name) for name in LAYERS},
    **{f"strings, {name}": partial(build_string, name) for name in STRING_LAYERS},
    **{f"KBRN, {name}": partial(build_kbrn, name) for name in KBRN_LAYERS if name != "batch"},
}
EVERY_KIND = pytest.mark.parametrize("name", ALL)


def options_of(name: str) -> dict[str, Any]:
    """Return the options of one kind that change its state and its recurrence."""
    is_machine = name in LAYERS
    return {"filter_length": MIXED, "dilation": 2, "layer_norm": True} if is_machine else {}


def build_any(name: str, **options: Any) -> SequenceLayer:
    """Return a layer of a row of ``ALL`` in float64."""
    return ALL[name](**options)


def build_deep(name: str, **options: Any) -> SequenceLayer:
    """Return two layers of a row of ``ALL`` with the options of its kind."""
    return ALL[name](num_layers=2, **options_of(name), **options)


def batch_of(layer: SequenceLayer, time: int = TIME, size: int = BATCH) -> Tensor:
    """Return random sequences ``(T, B, I)``, small enough for q with a pole."""
    dtype = next(layer.parameters()).dtype
    return torch.randn(time, size, layer.input_size, dtype=dtype) * 0.5


def sequences_of(layer: SequenceLayer) -> list[Tensor]:
    """Return random sequences ``(T_b, I)`` of the ``LENGTHS``."""
    return [batch_of(layer, length, 1)[:, 0] for length in LENGTHS]
