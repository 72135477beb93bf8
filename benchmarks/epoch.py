"""An epoch of text classification with RKM-CIFG beside the same model with torch.nn.LSTM.

    python benchmarks/epoch.py --out docs/results/epoch.md

takes about an hour; ``--part 0.05`` trains on a twentieth of the documents. The documents are made
up: words drawn by Zipf's law, in numbers spread like those of news items of some 45 words.
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
from torch.nn import functional as F

from machine import cores, load
from report import machine_table, publish
from representer.models import SequenceClassifier, SequenceClassifierConfig
from representer.ops import core
from representer.training.freed_memory import keep_freed_memory

DOCUMENTS, VOCABULARY, CLASSES, SIZE = 20_000, 30_000, 4, 300
BATCHES, THREADS = (16, 64), (1, 2)
THEIRS, OURS = "nn.LSTM", "RKM-CIFG"
CELLS = {THEIRS: "torch-lstm", OURS: "rkm-cifg"}
TURN = 5  # steps of one model before the other takes over

Batch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Epoch:
    """Times and losses of one epoch."""

    batch: int
    threads: int
    steps: int
    seconds: dict[str, float]
    losses: dict[str, float]
    load: str


def main() -> None:
    parser = argparse.ArgumentParser(description="Time an epoch of text classification.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--part", type=float, default=1.0, help="part of the documents")
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument(
        "--default-allocator",
        action="store_true",
        help="hand freed memory back, as Python does unless told; the trainer keeps it",
    )
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    if not chosen.default_allocator:
        keep_freed_memory()
    before, epochs = load(), []
    for threads in sorted(t for t in chosen.threads if t <= cores()):
        torch.set_num_threads(threads)
        for batch in chosen.batches:
            epochs.append(run(documents(chosen.part, batch), batch, threads))
            print(epochs[-1], file=sys.stderr, flush=True)
    text = page(epochs, chosen.part, (before, load()))
    publish(text, chosen.out)


def documents(part: float, batch: int) -> list[Batch]:
    """Return batches of random documents: token ids, lengths, labels."""
    draw = torch.Generator().manual_seed(0)
    count = max(batch, round(part * DOCUMENTS))
    spread = torch.randn(count, generator=draw) * 0.28
    lengths = (43 * spread.exp()).round().long().clamp(8, 200)  # mean 45, as in news items
    zipf = 1 / torch.arange(2.0, VOCABULARY + 1)
    labels = torch.randint(CLASSES, (count,), generator=draw)
    made = []
    for first in range(0, count - batch + 1, batch):
        of_batch = lengths[first : first + batch]
        shape = (batch, int(of_batch.max()))
        drawn = torch.multinomial(zipf, shape[0] * shape[1], replacement=True, generator=draw)
        tokens = drawn.view(shape) + 1
        tokens[torch.arange(shape[1]) >= of_batch[:, None]] = 0
        made.append((tokens, of_batch, labels[first : first + batch]))
    return made


def run(batches: list[Batch], batch: int, threads: int) -> Epoch:
    """Train both models on all batches, taking turns."""
    clock = time.process_time if threads == 1 else time.perf_counter
    steps = {name: _training(cell) for name, cell in CELLS.items()}
    seconds, losses = dict.fromkeys(CELLS, 0.0), dict.fromkeys(CELLS, 0.0)
    for step in steps.values():  # the first step makes the optimizer's state
        step(batches[0])
    for first in range(0, len(batches), TURN):
        turn = batches[first : first + TURN]
        for name in list(CELLS)[:: 1 if first // TURN % 2 else -1]:
            started = clock()
            losses[name] = sum(steps[name](one) for one in turn) / len(turn)
            seconds[name] += clock() - started
    return Epoch(batch, threads, len(batches), seconds, losses, load())


def _training(cell: str) -> Callable[[Batch], float]:
    torch.manual_seed(0)
    model = SequenceClassifier(
        SequenceClassifierConfig(
            VOCABULARY, CLASSES, cell, embedding_size=SIZE, hidden_size=SIZE, layer_norm=False
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step(batch: Batch) -> float:
        tokens, lengths, labels = batch
        loss = F.cross_entropy(model(tokens, lengths), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def page(epochs: list[Epoch], part: float, loads: tuple[str, str]) -> str:
    """Return the page in Markdown."""
    whole = part == 1
    lines = [
        "# An epoch of text classification",
        "",
        "Generated by the command below; no number was typed. The same classifier (embedding,",
        f"cell, mean over time, two layers; {SIZE} features and units, {VOCABULARY} words, Adam)",
        f"with RKM-CIFG and with `torch.nn.LSTM`, trained in turns of {TURN} steps on the same",
        f"batches of {DOCUMENTS} made-up documents of 45 words on average. One thread is measured",
        "by CPU time, two by the wall clock, which is meaningless on a busy machine. What both",
        "models share (the embedding's gradient, Adam over the vocabulary) is in both times.",
        *([] if whole else ["", f"A trial on {part:.3g} of the documents: not to be quoted."]),
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
        "",
        "| threads | batch | steps | nn.LSTM, s | RKM-CIFG, s | speedup of RKM-CIFG over nn.LSTM |"
        " last losses | load average |  |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | --- |",
    ]
    for e in epochs:
        theirs, ours = e.seconds[THEIRS], e.seconds[OURS]
        last = f"{e.losses[THEIRS]:.2f}, {e.losses[OURS]:.2f}"
        lines.append(
            f"| {e.threads} | {e.batch} | {e.steps} | {theirs:.1f} | {ours:.1f} |"
            f" {theirs / ours:.2f} | {last} | {e.load} |"
            f" {'met' if ours < theirs else 'missed'} |"
        )
    lines += ["", "Goal: an epoch with RKM-CIFG takes less time than one with nn.LSTM."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
