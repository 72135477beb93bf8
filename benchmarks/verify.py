"""Comparison of everything that is timed with the torch backend: wrong kernels are not timed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from cases import BY_INDEX, HAS_STREAMS, OURS, STEP, UNBOUND, Size, layers
from representer.nn import TABLE1
from representer.ops import core, use_backend

STEPS = 40  # maximum length of the compared sequences
TOLERANCE = 1e-4  # of the largest entry; float32 is off by up to 6e-5 where sums of products cancel


def verify(size: Size) -> None:
    """Compare every cell, and the loops, at a size with few steps: values and all gradients.

    The cells run on every usable instruction set of the core.

    Raises:
        SystemExit: If one differs.
    """
    size = replace(size, time=min(size.time, STEPS))
    x = torch.randn(size.time, size.batch, size.features)
    gradient = torch.randn(size.time, size.batch, size.units)
    made = layers(size, eager=True)
    for name in OURS:
        verify_layer(f"{name} at {size}", made[name], x, gradient)
    expected = values(made["RKM-LSTM"], x, gradient)[:2]
    for name in (BY_INDEX, UNBOUND):
        compare(f"{name} at {size}", values(made[name], x, gradient)[:2], expected)


def verify_layer(what: str, layer: nn.Module, x: Tensor, gradient: Tensor) -> None:
    """Compare a layer with the torch backend on every usable instruction set of the core.

    Raises:
        SystemExit: If it differs.
    """
    expected = exact(layer, x, gradient)
    for used in core.USABLE:
        with core.instruction_set(used):
            results = values(layer, x, gradient)
        compare(f"{what} on {used}", results, expected)


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
        compare(f"a step of {name}", [torch.stack(outputs)], [expected])
        if HAS_STREAMS:
            streamed = torch.stack(list(map(layer.stream(STEP.batch), x)))
            compare(f"a stream of {name}", [streamed], [expected])


def exact(layer: nn.Module, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """Return the values of the torch backend in float64."""
    with use_backend("reference"):
        return values(copy.deepcopy(layer).double(), x.double(), gradient.double())


def on_more_threads(check: Callable[[], object]) -> None:
    """Run a check on 2 and on 4 threads: after the timing, since they would add to CPU times."""
    before = torch.get_num_threads()
    for threads in (2, 4):
        torch.set_num_threads(threads)
        check()
    torch.set_num_threads(before)


def values(layer: nn.Module, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """Return the output, the gradient of the input, and those of the parameters."""
    x = x.clone().requires_grad_()
    output, _ = layer(x)
    used = [p for p in layer.parameters() if p.requires_grad]
    return [output.detach(), *torch.autograd.grad(output, [x, *used], gradient)]


def compare(what: str, results: list[Tensor], expected: list[Tensor]) -> None:
    """Compare tensors with what is expected of them.

    Raises:
        SystemExit: If one differs by more than the tolerance.
    """
    for result, wanted in zip(results, expected, strict=True):
        off = ((result - wanted).abs().max() / wanted.abs().max()).item()
        if not off <= TOLERANCE:
            raise SystemExit(f"{what} is off by {off:.1e} of the largest entry: not timed")
