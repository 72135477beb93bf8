"""Inputs of every operator for its tests and benchmarks, one module each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from representer.ops import Op

ADDED: dict[str, Callable[[], Iterator[Sample]]] = {}  # by operator; a test may add its own


@dataclass(frozen=True)
class Sample:
    """One set of arguments of an op, for tests and benchmarks.

    ``make(dtype)`` returns the tensors by name; those that are floating point and not in
    ``constants`` take part in gradients. ``options`` are the other arguments.
    """

    name: str
    make: Callable[[torch.dtype], dict[str, Tensor]]
    options: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()


def normal(seed: int, dtype: torch.dtype) -> Callable[..., Tensor]:
    """Return a function that draws normal tensors; the numbers are the same in every dtype."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return drawn.to(dtype)

    return draw


def samples_of(op: Op) -> list[Sample]:
    """Return the samples of an operator, from the module of its name."""
    if op.name not in ADDED:
        ADDED[op.name] = importlib.import_module(f"{__name__}.{op.name}").samples
    return list(ADDED[op.name]())
