"""The cells of Table 1 beside torch.nn.LSTM, timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.nn import TABLE1
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


@dataclass(frozen=True)
class Case:
    """Something to time.

    Attributes:
        name: Name in the table.
        run: Run it once.
    """

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Times of a case.

    Attributes:
        name: Name of the case.
        median: Seconds, median over the rounds.
        low: Lower quartile of the seconds.
        high: Upper quartile of the seconds.
        ratio: Time divided by the first case's in the same round, median over the rounds.
    """

    name: str
    median: float
    low: float
    high: float
    ratio: float


def compare(cases: Sequence[Case], repeats: int = 15, *, warm_ups: int = 2) -> list[Timing]:
    """Time cases against the first of them.

    Every round runs each case once, in rotated order, so that a change of the machine's speed
    affects all of them alike; the ratio is taken within a round.

    Raises:
        ArgumentError: If there is nothing to time.
    """
    if not cases:
        raise ArgumentError("cases", list(cases), "at least one case")
    if repeats < 1:
        raise ArgumentError("repeats", repeats, "at least 1")
    seconds: list[list[float]] = [[] for _ in cases]
    for round_number in range(-warm_ups, repeats):
        for offset in range(len(cases)):
            i = (round_number + offset) % len(cases)
            started = time.perf_counter()
            cases[i].run()
            elapsed = time.perf_counter() - started
            if round_number >= 0:
                seconds[i].append(elapsed)
    return [_timing(c.name, s, seconds[0]) for c, s in zip(cases, seconds, strict=True)]


def table(timings: Sequence[Timing]) -> str:
    """Return the timings as a Markdown table."""
    base = timings[0].name
    lines = [
        f"| what | median, ms | quartiles, ms | time by that of {base} |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {t.name} | {1e3 * t.median:.1f} | {1e3 * t.low:.1f} – {1e3 * t.high:.1f} "
        f"| {t.ratio:.2f} |"
        for t in timings
    ]
    return "\n".join(lines)


def _timing(name: str, seconds: Sequence[float], base: Sequence[float]) -> Timing:
    ordered = sorted(seconds)
    quarter = len(ordered) // 4
    return Timing(
        name,
        statistics.median(ordered),
        ordered[quarter],
        ordered[-1 - quarter],
        statistics.median(s / b for s, b in zip(seconds, base, strict=True)),
    )
