"""Learned and fixed activations in a plain network and in a recurrent cell.

    python benchmarks/learned_activations.py --out docs/results/learned-activations.md

takes some twenty minutes. The data are scikit-learn's digits: as 64 numbers, and row by row as
sequences of 8 steps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from activation_peers import KernelActivationFunction, SplineLayer
from machine import load
from report import machine_table, publish, table
from representer import nn as rnn

UNITS, CENTERS, CLASSES, BATCH = 64, 20, 10, 32
LR = 2e-3
Make = Callable[[], nn.Module]


def ours(units: int, init: str) -> nn.Module:
    """Return a learned activation for each of the units."""
    return rnn.KernelActivation(units, CENTERS, init=init, linear_term=True)


def plain(activation: Make) -> Make:
    """Return what makes a network with one hidden layer."""
    return lambda: nn.Sequential(nn.Linear(64, UNITS), activation(), nn.Linear(UNITS, CLASSES))


PLAIN: dict[str, Make] = {
    "ReLU": plain(nn.ReLU),
    "SiLU": plain(nn.SiLU),
    "tanh": plain(nn.Tanh),
    "PReLU, one a neuron": plain(lambda: nn.PReLU(UNITS)),
    "KernelActivation, from ReLU": plain(lambda: ours(UNITS, "relu")),
    "KernelActivation, from tanh": plain(lambda: ours(UNITS, "tanh")),
    "KAF (Gaussian, 20)": plain(lambda: KernelActivationFunction(UNITS, CENTERS)),
    "KAN of equal width": lambda: nn.Sequential(
        SplineLayer(64, UNITS), SplineLayer(UNITS, CLASSES)
    ),
    "KAN of as many parameters": lambda: nn.Sequential(
        SplineLayer(64, 11), SplineLayer(11, CLASSES)
    ),
}


class RowByRow(nn.Module):
    """An RKM-LSTM over the eight rows of an image, and a linear layer on its last state."""

    def __init__(self, output: str | nn.Module | None) -> None:
        super().__init__()
        self.cell = rnn.RKMLSTM(8, 32, output_nonlinearity=output, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``(B, 10)`` of images ``(B, 64)``."""
        return self.head(self.cell(x.unflatten(1, (8, 8)))[0][:, -1])


RECURRENT: dict[str, Make] = {
    "none (RKM-LSTM)": lambda: RowByRow(None),
    "tanh": lambda: RowByRow("tanh"),
    "ReLU": lambda: RowByRow(nn.ReLU()),
    "SiLU": lambda: RowByRow(nn.SiLU()),
    "PReLU, one a neuron": lambda: RowByRow(_Last(nn.PReLU(32))),
    "KernelActivation, from identity": lambda: RowByRow(ours(32, "identity")),
    "KernelActivation, from tanh": lambda: RowByRow(ours(32, "tanh")),
    "KAF (Gaussian, 20)": lambda: RowByRow(KernelActivationFunction(32, CENTERS)),
}


class _Last(nn.Module):
    """Applies an activation whose features are the second axis to those in the last."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x.flatten(0, -2)).view_as(x)


@dataclass
class Run:
    """Result of one training: test accuracy in percent, parameters, CPU seconds per epoch."""

    accuracy: float
    parameters: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare learned activations.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    before = load()
    found = {}
    for title, models in (("plain", PLAIN), ("recurrent", RECURRENT)):
        found[title] = {name: [] for name in models}
        for seed in range(
            chosen.seeds
        ):  # seed by seed, so that noise of the machine affects all models
            for name, make in models.items():
                found[title][name].append(train(make, seed, chosen.epochs))
            print(title, "seed", seed, file=sys.stderr)
    publish(page(found, chosen.epochs, chosen.seeds, (before, load())), chosen.out)


def train(make: Make, seed: int, epochs: int) -> Run:
    """Train a model with one seed and split, and test it after the last epoch."""
    digits = load_digits()
    split = train_test_split(
        torch.tensor(digits.data, dtype=torch.float32) / 8 - 1,
        torch.tensor(digits.target),
        test_size=0.25,
        random_state=seed,
        stratify=digits.target,
    )
    x, x_test, y, y_test = split
    torch.manual_seed(seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    seconds = []
    for _ in range(epochs):
        start = time.process_time()
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        seconds.append(time.process_time() - start)
    with torch.no_grad():
        right = (model(x_test).argmax(1) == y_test).double().mean()
    count = sum(p.numel() for p in model.parameters())
    return Run(100 * float(right), count, statistics.median(seconds))


def page(
    found: dict[str, dict[str, list[Run]]], epochs: int, seeds: int, loads: tuple[str, str]
) -> str:
    """Return the page in Markdown."""
    titles = {
        "plain": f"A network with one hidden layer of {UNITS} units",
        "recurrent": "An RKM-LSTM of 32 units over the rows of an image, its output function",
    }
    lines = [
        "# Learned activations in use",
        "",
        "Generated by the command below; no number was typed. scikit-learn's digits (1,797",
        f"images of 8 × 8), a quarter held out, {seeds} seeds with a split each, {epochs} epochs",
        f"of Adam with a rate of {LR:g} for all, batches of {BATCH}; test accuracy after the last",
        "epoch, mean and standard deviation over seeds. Seconds are CPU time of one thread,",
        f"medians over epochs and seeds. Learned functions have {CENTERS} centers a neuron (KAN: 8",
        "cubic B-splines an edge).",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
    ]
    for title, runs in found.items():
        lines += ["", f"## {titles[title]}", "", _table(runs)]
    return "\n".join(lines) + "\n"


def _table(runs: dict[str, list[Run]]) -> str:
    first = statistics.median(run.seconds for run in next(iter(runs.values())))
    body = []
    for name, of in runs.items():
        accuracies = [run.accuracy for run in of]
        spread = statistics.stdev(accuracies) if len(of) > 1 else 0.0
        seconds = statistics.median(run.seconds for run in of)
        body.append(
            [
                name,
                f"{statistics.mean(accuracies):.2f} ± {spread:.2f}",
                f"{of[0].parameters:,}",
                f"{seconds:.3f}",
                f"{seconds / first:.2f}",
            ]
        )
    head = ["activation", "accuracy, %", "parameters", "s an epoch", "of the first row's"]
    return table(head, body)


if __name__ == "__main__":
    main()
