"""A training step of KBRN beside a loop that broadcasts inputs against centers at every step.

    python benchmarks/kbrn.py --out docs/results/kbrn-speed.md

takes about a minute. Losses and gradients are compared with the loop first.
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
from representer import functional, nn
from representer.ops import core, use_backend
from representer.tasks.training.freed_memory import keep_freed_memory
from timing import Candidate, Rounds, interleave

TIME, BATCH, UNITS, CENTERS = 50, 500, 20, 100
LAYER, LOOP, TORCH = "KBRN on the core", "eager loop that broadcasts", "KBRN without the core"
LSTM = "torch.nn.LSTM of as many units"
PLAIN, KEPT = "As a process is by itself", "With freed memory kept, as the commands do"
GOAL = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a training step of KBRN.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--repeats", type=int, default=9)
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    before = load()
    verify(6, 20)
    found = {PLAIN: measure(TIME, BATCH, chosen.repeats)}
    keep_freed_memory()
    found[KEPT] = measure(TIME, BATCH, chosen.repeats)
    publish(page(found, (before, load())), chosen.out)


def network(features: int = 1) -> nn.KBRN:
    """Return the layer of the paper's long-term problem."""
    torch.manual_seed(0)
    return nn.KBRN(features, UNITS, num_centers=CENTERS)


def loop(layer: nn.KBRN, x: Tensor) -> Tensor:
    """Return the last output of a layer in training, step by step in torch's own operations."""
    part = layer.directions[0]
    f, scale, h = part.activation, part.norm.scale, x.new_zeros(x.shape[1], UNITS)
    for x_t in x:
        a = torch.nn.functional.linear(x_t, part.input_weight, part.bias) + h @ part.recurrent.T
        a = torch.nn.functional.batch_norm(
            a, None, None, scale[0], scale[1], training=True, eps=layer.eps
        )
        h = functional.kernel_activation(a, f.centers, f.coefficients)
    return h


def verify(steps: int, batch: int) -> None:
    """Compare the layer with the loop.

    Raises:
        SystemExit: If last outputs or gradients differ by more than float32 rounds.
    """
    layer, x = network().double(), torch.randn(steps, batch, 1, dtype=torch.float64)
    parameters = list(layer.parameters())
    ours, theirs = layer(x)[1].h[0], loop(layer, x)
    pairs = [(ours, theirs)]
    pairs += zip(
        *(torch.autograd.grad(h.square().sum(), parameters) for h in (ours, theirs)), strict=True
    )
    for found, wanted in pairs:
        most = 1e-9 * max(1.0, wanted.abs().max().item())
        if (found - wanted).abs().max().item() > most:
            raise SystemExit("the layer is not the loop")


def measure(steps: int, batch: int, repeats: int) -> Rounds:
    """Time a training step of all candidates: forward, backward, and Adam."""
    x = torch.randint(0, 2, (steps, batch, 1)).float()
    lstm = torch.nn.LSTM(1, UNITS)
    of_loop, of_torch, of_core = network(), network(), network()

    def trains(layer: torch.nn.Module, run: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.Adam(layer.parameters(), 1e-3)

        def step() -> None:
            optimizer.zero_grad()
            run().square().mean().backward()
            optimizer.step()

        return step

    def on_reference() -> Tensor:
        with use_backend("reference"):
            return of_torch(x)[1].h[0]

    candidates = [
        Candidate(LAYER, trains(of_core, lambda: of_core(x)[1].h[0])),
        Candidate(LSTM, trains(lstm, lambda: lstm(x)[0][-1])),
        Candidate(TORCH, trains(of_torch, on_reference), is_slow=True),
        Candidate(LOOP, trains(of_loop, lambda: loop(of_loop, x)), is_slow=True),
    ]
    return interleave(candidates, time.process_time, repeats, 3)


def page(found: dict[str, Rounds], loads: tuple[str, str]) -> str:
    """Write what was measured as Markdown."""
    lines = [
        "# KBRN: a training step",
        "",
        "Written by the command below; no number here was typed. One thread, CPU time, float32,",
        f"{TIME} steps of {BATCH} sequences, {UNITS} units, {CENTERS} centers, normalization by",
        "the statistics of every step; forward, backward and Adam; candidates interleaved in one",
        "process, medians. What the loop broadcasts is fresh memory at every step, which the",
        "system hands out slowly, unless freed memory is kept.",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
    ]
    for title, rounds in found.items():
        lines += ["", f"## {title}", "", *_section(rounds)]
    return "\n".join(lines) + "\n"


def _section(rounds: Rounds) -> list[str]:
    median = {name: rounds.spread(name).median for name in rounds.seconds}
    ratio = median[LOOP] / median[LAYER]
    body = [
        [name, f"{1000 * seconds:.1f}", number(median[LOOP] / seconds)]
        for name, seconds in median.items()
    ]
    verdict = "met" if ratio >= GOAL else "missed"
    return [
        table(["", "ms", f"time of the {LOOP} over it"], body),
        "",
        f"The goal is {GOAL:g} times the {LOOP}: {verdict}, {ratio:.0f} times.",
    ]


if __name__ == "__main__":
    main()
