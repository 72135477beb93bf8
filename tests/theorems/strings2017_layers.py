"""Layers with given references, for the theorems of L17."""

from __future__ import annotations

from typing import Any

import torch
from strings2017_by_hand import random_sequence
from torch import Tensor

from representer.nn import StringKernelRNN


def layer_of(references: Tensor, **options: Any) -> StringKernelRNN:
    """A layer with these references ``(H, n, d)``, without activation and gradients."""
    units, order, d = references.shape
    usual = {"decay": 0.5, "activation": None, "dtype": torch.float64}
    settings = {"order": order, **usual, **options}
    layer = StringKernelRNN(d, units, **settings).requires_grad_(False)
    layer.references().copy_(references)
    return layer


def draw(T: int, d: int, n: int, H: int, seed: int) -> tuple[Tensor, Tensor]:
    """A sequence ``(T, d)`` and H references of n tokens ``(H, n, d)``."""
    generator = torch.Generator().manual_seed(seed)
    x = random_sequence(T, d, generator)
    return x, random_sequence(H * n, d, generator).reshape(H, n, d)
