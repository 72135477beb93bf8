"""Tokens a second in training a language model, beside the same model on torch.nn.LSTM.

    python benchmarks/language.py --out docs/results/language-speed.md

takes some twenty minutes. A step is forward, loss, backward and SGD at the settings of L17's 5m and
20m models (three layers, batch 32, 35 steps) and of the AWD models (400, 1150, 1150, 400; batch 20,
70 steps), over a vocabulary of 10,000. The same models are timed without the softmax too, and the
matrix products of each step alone, as torch computes them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from machine import load
from report import machine_table, publish, table
from representer.models import LanguageModel, LanguageModelConfig
from representer.ops import core
from representer.training.freed_memory import keep_freed_memory
from timing import Candidate, Rounds, interleave

WORDS = 10_000
THEIRS = "nn.LSTM"
WHOLE, LAYERS = "whole step", "without the softmax"
CELLS = {
    THEIRS: ({"cell": "torch-lstm"}, 4, 4),
    "RKM-LSTM": ({"cell": "rkm-lstm"}, 4, 4),
    "string kernel, gated on x and h": ({"cell": "string-kernel", "decay": "state"}, 3, 1),
    "string kernel, gated on x": ({"cell": "string-kernel", "decay": "input"}, 3, 0),
}
"""Options, and products of a layer with its input and with its state."""

GOALS = {"RKM-LSTM": 1.0, "string kernel, gated on x and h": 2.0, "string kernel, gated on x": 2.0}


@dataclass(frozen=True)
class Size:
    """Of a model and of its segments."""

    name: str
    embedding: int
    hidden: int
    batch: int
    steps: int

    @property
    def layers(self) -> list[tuple[int, int]]:
        """Inputs and units of each layer."""
        return LanguageModelConfig(WORDS, self.embedding, self.hidden).layer_sizes


SIZES = {
    "5m": Size("5m", 355, 355, 32, 35),
    "20m": Size("20m", 950, 950, 32, 35),
    "awd": Size("AWD", 400, 1150, 20, 70),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the training of language models.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=9)
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    keep_freed_memory()
    before, found = load(), {}
    for name in chosen.sizes:
        found[name] = measure(SIZES[name], chosen.repeats)
        print(name, {n: found[name].spread(n).median for n in found[name].seconds}, file=sys.stderr)
    publish(page(found, (before, load())), chosen.out)


def measure(size: Size, repeats: int) -> Rounds:
    """Time every model of a size, whole and without the softmax, and its products alone."""
    candidates = []
    for name, (options, inputs, states) in CELLS.items():
        model = build(size, options)
        candidates.append(Candidate(f"{name}, {WHOLE}", step(model, size, has_softmax=True)))
        candidates.append(Candidate(f"{name}, {LAYERS}", step(model, size, has_softmax=False)))
        candidates.append(Candidate(f"{name}, products", products(size, inputs, states)))
    return interleave(candidates, time.process_time, repeats, repeats)


def build(size: Size, options: dict[str, str]) -> LanguageModel:
    """Return a model in training mode, without dropout, which all would have alike."""
    torch.manual_seed(0)
    config = LanguageModelConfig(
        WORDS, size.embedding, size.hidden, input_dropout=0.0, output_dropout=0.0,
        highway=size.embedding == size.hidden, **options,
    )  # fmt: skip
    return LanguageModel(config)


def step(model: LanguageModel, size: Size, *, has_softmax: bool) -> Callable[[], Tensor]:
    """Return a training step; without the softmax the loss is the sum of the features."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(WORDS, (size.steps + 1, size.batch), generator=draw)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def run() -> Tensor:
        features = model(tokens[:-1]).features
        if has_softmax:
            loss = model.output.loss(features, tokens[1:]) / tokens[1:].numel()
        else:
            loss = features.sum() / tokens[1:].numel()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run


def products(size: Size, inputs: int, states: int) -> Callable[[], None]:
    """Return the matrix products of a step: forward, for the gradient on, and for the weights.

    Args:
        size: Of the model.
        inputs: Products of a layer with its input, computed as one.
        states: Those with its state, one a step.
    """
    rows, work = size.batch * size.steps, []

    def add(times: int, a: tuple[int, int], b: tuple[int, int]) -> None:
        work.append((times, torch.randn(a), torch.randn(b)))

    for m, d in size.layers:
        for times, n, k, width in (
            (1, rows, m, inputs * d),
            *([(size.steps, size.batch, d, states * d)] if states else []),
        ):
            add(times, (n, k), (k, width))
            add(times, (n, width), (width, k))
        add(1, (m, rows), (rows, inputs * d))
        if states:
            add(1, (d, rows), (rows, states * d))
    e = size.embedding
    for a, b in (((rows, e), (e, WORDS)), ((rows, WORDS), (WORDS, e)), ((WORDS, rows), (rows, e))):
        add(1, a, b)

    def run() -> None:
        for times, a, b in work:
            for _ in range(times):
                a @ b

    return run


def page(found: dict[str, Rounds], loads: tuple[str, str]) -> str:
    """Return the page in Markdown."""
    lines = [
        "# Training language models",
        "",
        "Generated by the command below; no number was typed. One thread, CPU time, float32,",
        "the candidates of a table interleaved in one process; medians, and ratios within each",
        "round. A step reads a segment of parallel streams, without dropout. *Products* is the",
        "time that torch takes for the matrix products of the step alone, softmax included; what",
        "the whole step takes besides is the share outside them (none where the fused recurrence",
        "computes them faster than torch). The softmax over 10,000 words is the same for all",
        "models, and its three products are most of a step of the small ones: the ratio without it",
        "is that of the layers.",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
    ]
    for name, rounds in found.items():
        lines += ["", f"## {SIZES[name].name}: {_described(SIZES[name])}", "", _table(name, rounds)]
    return "\n".join(lines) + "\n"


def _described(size: Size) -> str:
    sizes = " → ".join(str(n) for n in (size.embedding, *(d for _, d in size.layers)))
    return f"{sizes}, batch {size.batch}, {size.steps} steps"


def _table(name: str, rounds: Rounds) -> str:
    size, rows = SIZES[name], []
    for cell in CELLS:
        whole = rounds.spread(f"{cell}, {WHOLE}").median
        layers = rounds.spread(f"{cell}, {LAYERS}").median
        alone = rounds.spread(f"{cell}, products").median
        ratios = [
            rounds.ratio(f"{THEIRS}, {part}", f"{cell}, {part}").median for part in (WHOLE, LAYERS)
        ]
        goal = GOALS.get(cell)
        verdict = "" if goal is None else f"≥ {goal:g}: {'met' if ratios[0] >= goal else 'missed'}"
        rows.append(
            [
                cell,
                f"{size.batch * size.steps / whole:,.0f}",
                f"{1000 * whole:.0f}",
                f"{1000 * layers:.0f}",
                f"{100 * max(0.0, 1 - alone / whole):.0f} %",
                f"{ratios[0]:.2f}",
                f"{ratios[1]:.2f}",
                verdict,
            ]
        )
    head = [
        "layers", "tokens a second", "step, ms", "without the softmax, ms", "outside products",
        "speedup over nn.LSTM", "without the softmax", "goal",
    ]  # fmt: skip
    return table(head, rows)


if __name__ == "__main__":
    main()
