"""Learned activations beside the sum over all centers and beside torch.tanh.

    python benchmarks/activations.py --out docs/results/activations.md

takes some five minutes and 4 GiB of memory. Values and gradients are compared with the sum first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from machine import load
from report import machine_table, number, publish, table
from representer import functional
from representer.ops import core, kernel_activation
from representer.tasks.training.freed_memory import keep_freed_memory
from timing import Candidate, Rounds, interleave

ROWS, FEATURES, CENTERS = 100_000, 20, (20, 100)
FORWARD, TRAINING = "forward", "forward + backward"
SUM, TANH = "sum over all centers", "torch.tanh"
GREENS = ("abs", "cubic", "gaussian")
GOALS = {(FORWARD, SUM): 80.0, (TRAINING, SUM): 150.0, (FORWARD, TANH): 1 / 3}
"""At least so many times the speed of these, with |u| and 100 centers."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Time learned activations.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=9)
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    keep_freed_memory()
    before, found = load(), {}
    for count in CENTERS:
        verify(count)
        for mode in (FORWARD, TRAINING):
            found[count, mode] = measure(chosen.rows, count, mode, chosen.repeats)
            print(count, mode, file=sys.stderr)
    publish(page(found, chosen.rows, (before, load())), chosen.out)


def tensors(rows: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs, centers and coefficients, normal numbers."""
    draw = torch.Generator().manual_seed(0)
    shapes = ((rows, FEATURES), (FEATURES, count), (FEATURES, count))
    a, c, chi = (torch.randn(shape, generator=draw).requires_grad_() for shape in shapes)
    return a, c, chi


def verify(count: int) -> None:
    """Compare values and gradients with the sum.

    Raises:
        SystemExit: If they differ by more than float32 rounds.
    """
    given = tensors(1000, count)
    for green in GREENS:
        results = [
            (y := f(*given, green=green), *torch.autograd.grad(y.square().sum(), given))
            for f in (kernel_activation, functional.kernel_activation)
        ]
        for ours, theirs in zip(*results, strict=True):
            if (ours - theirs).abs().max() > 1e-4 * theirs.abs().max():
                raise SystemExit(f"{green} with {count} centers is not the sum")


def measure(rows: int, count: int, mode: str, repeats: int) -> Rounds:
    """Time all candidates of one size."""
    a, c, chi = tensors(rows, count)
    out = torch.randn(rows, FEATURES)

    def timed(name: str, do: Callable[[], Tensor], *of: Tensor, is_slow: bool = False) -> Candidate:
        def forward() -> None:
            with torch.no_grad():
                do()

        def training() -> None:
            torch.autograd.grad(do(), of, out)

        return Candidate(name, forward if mode == FORWARD else training, is_slow)

    candidates = [
        timed(f"g = {green}", lambda g=green: kernel_activation(a, c, chi, green=g), a, c, chi)
        for green in GREENS
    ]
    candidates.append(timed(TANH, lambda: torch.tanh(a), a))
    summed = lambda: functional.kernel_activation(a, c, chi)  # noqa: E731
    candidates.append(timed(SUM, summed, a, c, chi, is_slow=True))
    return interleave(candidates, time.process_time, repeats, 3)


def page(found: dict[tuple[int, str], Rounds], rows: int, loads: tuple[str, str]) -> str:
    """Write what was measured as Markdown."""
    lines = [
        "# Learned activations",
        "",
        "Written by the command below; no number here was typed. One thread, CPU time, float32,",
        f"{rows:,} × {FEATURES} inputs, every feature with a function of its own; candidates",
        "interleaved in one process, medians. *Sum over all centers* is the definition with |u| as",
        "torch broadcasts it; ratios are of medians, since what runs after it finds memory cold.",
        "Sorting the centers is part of every call.",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
    ]
    for (count, mode), rounds in found.items():
        lines += ["", f"## {count} centers, {mode}", "", _table(count, mode, rounds)]
    return "\n".join(lines) + "\n"


def _table(count: int, mode: str, rounds: Rounds) -> str:
    body = []
    for name in rounds.seconds:
        median = rounds.spread(name).median
        ratios = [rounds.spread(peer).median / median for peer in (SUM, TANH)]
        verdict = ""
        if name == "g = abs" and count == max(CENTERS):
            goals = {peer: GOALS.get((mode, peer)) for peer in (SUM, TANH)}
            verdict = ", ".join(
                f"≥ {goal:.3g} times {peer}: {'met' if ratio >= goal else 'missed'}"
                for (peer, goal), ratio in zip(goals.items(), ratios, strict=True)
                if goal
            )
        body.append([name, f"{1000 * median:.1f}", *map(number, ratios), verdict])
    head = ["", "ms", f"{SUM}'s time over it", f"{TANH}'s time over it", "goal"]
    return table(head, body)


if __name__ == "__main__":
    main()
