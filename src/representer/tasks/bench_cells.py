"""The cells of Table 1 beside torch.nn.LSTM, timed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from representer.nn import TABLE1
from representer.tasks.bench import Case, compare, table
from representer.training.fingerprint import fingerprint


def bench_cells(
    *,
    length: int = 100,
    batch_size: int = 32,
    input_size: int = 300,
    hidden_size: int = 300,
    filter_length: int = 1,
    repeats: int = 15,
    forward_only: bool = False,
    threads: int = 0,
) -> str:
    """Time every cell on one batch and return the table, with what it was measured on.

    Args:
        length: T, steps.
        batch_size: B, sequences.
        input_size: m, numbers per input.
        hidden_size: d, units.
        filter_length: n of the n-gram filters; torch.nn.LSTM has always 1.
        repeats: Rounds that count.
        forward_only: Whether the backward pass is left out.
        threads: CPU threads; 0 leaves the choice to torch.
    """
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.randn(length, batch_size, input_size)
    layers: dict[str, nn.Module] = {"torch.nn.LSTM": nn.LSTM(input_size, hidden_size)}
    for name, build in TABLE1.items():
        layers[name] = build(input_size, hidden_size, filter_length=filter_length)
    run = _forward if forward_only else _forward_and_backward
    timings = compare([Case(name, run(layer, x)) for name, layer in layers.items()], repeats)
    machine = fingerprint()
    what = "forward" if forward_only else "forward and backward"
    heading = (
        f"{what}, (T, B, m, d) = ({length}, {batch_size}, {input_size}, {hidden_size}), "
        f"{filter_length}-gram, {repeats} interleaved rounds\n"
        f"torch {machine['torch']}, {machine['threads']} threads, {machine['cpu capability']}"
    )
    return f"{heading}\n\n{table(timings)}"


def _forward(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


def _forward_and_backward(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    x = x.clone().requires_grad_()  # as inside a network, where the gradient goes on below

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        output, _ = layer(x)
        output.sum().backward()

    return run
