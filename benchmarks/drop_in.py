"""Layers as replacements of nn.LSTM, GINE and ReLU, with their defaults and without tuning.

    python benchmarks/drop_in.py --runs runs/drop-in.jsonl --out docs/results/drop-in.md

The same command continues after an interruption: finished trainings are in the file of ``--runs``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from drop_in_page import Run, page
from drop_in_problems import ACTIVATIONS, GRAPHS, SEQUENCES, Examples, Problem
from machine import load
from report import publish
from representer import nn as rnn
from representer.models.gine import GINE

UNITS, FEATURES, BATCH, LR = 64, 32, 32, 1e-3
Layer = Callable[..., nn.Module]


class SequenceNetwork(nn.Module):
    """An embedding of tokens, a sequence layer, and a linear layer on its output."""

    def __init__(self, problem: Problem, layer: Layer, features: int) -> None:
        super().__init__()
        self.mean = problem.mean
        self.embedding = None
        if problem.vocabulary:
            self.embedding, features = nn.Embedding(problem.vocabulary, FEATURES), FEATURES
        self.layer = layer(features, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, problem.classes or 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs; with a mean over time, 0 is padding."""
        h = self.layer(x if self.embedding is None else self.embedding(x))[0]
        if not self.mean:
            return self.head(h[:, -1])
        is_token = (x > 0)[..., None]
        return self.head((h * is_token).sum(1) / is_token.sum(1))


class ReadOut(nn.Module):
    """A graph layer and a linear layer."""

    def __init__(self, problem: Problem, layer: Layer, features: int) -> None:
        super().__init__()
        self.layer, self.head = layer(features, UNITS), nn.Linear(UNITS, problem.classes or 1)

    def forward(self, graphs: tuple[Any, ...]) -> Tensor:
        """Return the outputs of joined graphs."""
        x, edge_index, batch, size = graphs
        return self.head(self.layer(x, edge_index, batch=batch, batch_size=size))


def perceptron(problem: Problem, layer: Layer, features: int) -> nn.Module:
    """Return a network of two hidden layers with an activation."""
    return nn.Sequential(
        nn.Linear(features, UNITS // 2), layer(UNITS // 2),
        nn.Linear(UNITS // 2, UNITS // 2), layer(UNITS // 2),
        nn.Linear(UNITS // 2, problem.classes or 1),
    )  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Layers of one kind, the layers that they replace, and their problems."""

    title: str
    network: Callable[[Problem, Layer, int], nn.Module]
    problems: dict[str, Problem]
    baselines: dict[str, Layer]
    layers: dict[str, Layer]


KINDS = (
    Kind(
        "Sequence layers", SequenceNetwork, SEQUENCES,
        {"nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU},
        {
            "RKMLSTM": rnn.RKMLSTM, "RKMCIFG": rnn.RKMCIFG, "RAN": rnn.RAN,
            "LinearKernelRNN": rnn.LinearKernelRNN, "NgramLSTM": rnn.NgramLSTM,
            "StringKernelRNN": rnn.StringKernelRNN,
        },
    ),
    Kind(
        "Graph layers", ReadOut, GRAPHS, {"GINE": GINE},
        {
            "WLKernelNN": rnn.WLKernelNN, "RandomWalkKernelNN": rnn.RandomWalkKernelNN,
            "DeepGraphKernelNN": rnn.DeepGraphKernelNN,
        },
    ),
    Kind(
        "Activations", perceptron, ACTIVATIONS, {"ReLU": lambda _: nn.ReLU()},
        {"KernelActivation": rnn.KernelActivation},
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare layers that replace each other.")
    parser.add_argument("--runs", type=Path, required=True, help="finished trainings, JSONL")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=float, default=1.0, help="fraction of the steps")
    parser.add_argument("--only", nargs="+", help="names of layers and problems")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    before = load()
    runs = finished(chosen.runs)
    for seed in range(chosen.seeds):  # seed by seed, so that a stopped command has whole seeds
        for kind in KINDS:
            missing = {
                (problem, layer): make
                for problem in kind.problems
                for layer, make in (kind.baselines | kind.layers).items()
                if not chosen.only or {problem, layer} & set(chosen.only)
                if not any((r.problem, r.layer, r.seed) == (problem, layer, seed) for r in runs)
            }
            for (name, layer), make in missing.items():
                runs.append(train(kind, name, layer, make, seed, chosen.steps))
                keep(runs[-1], chosen.runs)
                print(*asdict(runs[-1]).values(), file=sys.stderr)
    groups = [
        (kind.title, {k: p.title for k, p in kind.problems.items()}, [*kind.baselines],
         [*kind.layers])
        for kind in KINDS
    ]  # fmt: skip
    settings = f"Adam at {LR:g}, batches of {BATCH}, {UNITS} units"
    publish(page(runs, groups, settings, " ".join(["python", *sys.argv]), (before, load())),
            chosen.out)  # fmt: skip


@lru_cache(maxsize=1)  # the layers of a problem follow each other
def examples(problem: Problem, seed: int) -> tuple[Examples, Examples]:
    """Return training and test examples."""
    return problem.draw(torch.Generator().manual_seed(seed))


def train(kind: Kind, name: str, layer: str, make: Layer, seed: int, fraction: float) -> Run:
    """Train one network and test it after the last step."""
    problem, batches = kind.problems[name], torch.Generator().manual_seed(seed)
    known, test = examples(problem, seed)
    torch.manual_seed(seed)
    x, _ = known.rows(torch.arange(1))
    features = x.shape[-1] if isinstance(x, Tensor) else x[0].shape[-1]
    network = kind.network(problem, make, features)
    optimizer = torch.optim.Adam(network.parameters(), LR)
    start = time.process_time()
    for _ in range(max(1, round(fraction * problem.steps))):
        rows = torch.randint(0, len(known.targets), (BATCH,), generator=batches)
        inputs, targets = known.rows(rows)
        optimizer.zero_grad()
        loss(problem, network(inputs), targets).backward()
        optimizer.step()
    seconds = time.process_time() - start
    return Run(name, layer, seed, score(problem, network.eval(), test), round(seconds, 2))


def loss(problem: Problem, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return cross-entropy, or the mean squared error of a regression."""
    if problem.classes:
        return F.cross_entropy(outputs, targets)
    return F.mse_loss(outputs[:, 0], targets)


@torch.no_grad()
def score(problem: Problem, network: nn.Module, test: Examples) -> float:
    """Return the accuracy, or the explained variance of a regression, in percent."""
    inputs, targets = test.rows(torch.arange(len(test.targets)))
    outputs = network(inputs)
    if problem.classes:
        return 100 * float((outputs.argmax(1) == targets).double().mean())
    return 100 - 100 * float(F.mse_loss(outputs[:, 0], targets) / targets.var())


def finished(path: Path) -> list[Run]:
    """Return the runs of a file, without a line that was not written to its end."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Run(**json.loads(line)) for line in lines if line.endswith("}")]


def keep(run: Run, path: Path) -> None:
    """Append a run to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(asdict(run)))  # not on the same line as a partial one


if __name__ == "__main__":
    main()
