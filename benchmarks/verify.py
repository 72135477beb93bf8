"""Comparison of everything that is timed with the torch backend: wrong kernels are not timed."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from cases import BY_INDEX, OURS, STEP, UNBOUND, Size, layers
from representer.nn import TABLE1
from representer.ops import use_backend

STEPS = 40  # maximum length of the compared sequences
TOLERANCE = 2e-5  # of the largest entry, float32 against float32


def verify(size: Size) -> None:
    """Compare every cell, and the loops, at a size with few steps: values and all gradients.

    Raises:
        SystemExit: If one differs.
    """
    size = replace(size, time=min(size.time, STEPS))
    x = torch.randn(size.time, size.batch, size.features)
    gradient = torch.randn(size.time, size.batch, size.units)
    made = layers(size, eager=True)
    for name in OURS:
        with use_backend("reference"):
            expected = _values(made[name], x, gradient)
        _compare(f"{name} at {size}", _values(made[name], x, gradient), expected)
    expected = _values(made["RKM-LSTM"], x, gradient)[:2]
    for name in (BY_INDEX, UNBOUND):
        _compare(f"{name} at {size}", _values(made[name], x, gradient)[:2], expected)


def verify_step() -> None:
    """Compare three single steps, and those of a stream, with a sequence of three.

    Raises:
        SystemExit: If they differ.
    """
    x = torch.randn(3, STEP.batch, STEP.features)
    for name in OURS:
        layer, state, outputs = TABLE1[name](STEP.features, STEP.units), None, []
        with torch.no_grad():
            for x_t in x:
                output, state = layer.step(x_t, state)
                outputs.append(output)
            with use_backend("reference"):
                expected, _ = layer(x)
        streamed = list(map(layer.stream(STEP.batch), x))
        for what, found in (("step", outputs), ("stream", streamed)):
            _compare(f"a {what} of {name}", [torch.stack(found)], [expected])


def _values(layer: nn.Module, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """Return the output, the gradient of the input, and those of the parameters."""
    x = x.clone().requires_grad_()
    output, _ = layer(x)
    used = [p for p in layer.parameters() if p.requires_grad]
    return [output.detach(), *torch.autograd.grad(output, [x, *used], gradient)]


def _compare(what: str, found: list[Tensor], expected: list[Tensor]) -> None:
    for result, wanted in zip(found, expected, strict=True):
        off = ((result - wanted).abs().max() / wanted.abs().max()).item()
        if not off <= TOLERANCE:
            raise SystemExit(f"{what} is off by {off:.1e} of the largest entry: not timed")
