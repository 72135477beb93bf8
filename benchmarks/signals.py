"""A training epoch of wavelet cells beside nn.LSTM on unfolded windows, and a step of a stream.

    python benchmarks/signals.py --out docs/results/signals-speed.md

takes about two minutes. The n-gram LSTM is compared with nn.LSTM on the same filters first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from machine import load
from report import machine_table, number, publish, table
from representer.models import SignalClassifier, SignalClassifierConfig, SignalStream
from representer.ops import core
from representer.training.freed_memory import keep_freed_memory
from timing import Candidate, Rounds, interleave

TIME, CHANNELS, LENGTH, UNITS, BATCH, CLASSES, RATE = 1000, 11, 40, 30, 32, 3, 1000.0
STRIDES = (1, 10, 20, 40)
CELLS = {
    "n-gram LSTM": "lstm",
    "RKM-LSTM": "rkm-lstm",
    "Linear Kernel w/ o_t": "linear-kernel-gated",
}
BASELINE = "torch.nn.LSTM on unfolded windows"
GOAL = 2.0
STREAM = 500  # steps


class Unfolded(nn.Module):
    """The baseline without wavelets: nn.LSTM on each step's window, flattened."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.lstm = nn.LSTM(CHANNELS * LENGTH, UNITS)
        self.head = nn.Linear(UNITS, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        """Return the logits of windows ``(B, C, T)``."""
        return self.head(self.states(signal).mean(0))

    def states(self, signal: Tensor) -> Tensor:
        """Return the states ``(S, B, K)``."""
        seen = F.pad(signal, (LENGTH - 1, 0))[:, :, self.stride - 1 :]
        windows = seen.unfold(2, LENGTH, self.stride)  # (B, C, S, n)
        return self.lstm(windows.permute(2, 0, 1, 3).flatten(2))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time cells with wavelet filters.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--repeats", type=int, default=9)
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    keep_freed_memory()  # as the commands do
    before = load()
    verify(20, 200)
    found = {stride: measure(stride, TIME, BATCH, chosen.repeats) for stride in STRIDES}
    steps = {stride: latencies(stride, STREAM) for stride in STRIDES}
    publish(page(found, steps, (before, load())), chosen.out)


def model(cell: str, stride: int) -> SignalClassifier:
    """Return the model of the measurement."""
    torch.manual_seed(0)
    return SignalClassifier(
        SignalClassifierConfig(
            CHANNELS, CLASSES, RATE, cell=cell, stride=stride, filter_length=LENGTH,
            hidden_size=UNITS,
        )
    )  # fmt: skip


def verify(stride: int, samples: int) -> None:
    """Compare the n-gram LSTM with nn.LSTM that is given the waveforms of its wavelets.

    Raises:
        SystemExit: If their states differ.
    """
    ours, theirs = model("lstm", stride).double(), Unfolded(stride).double()
    layer, lstm = ours.cell, theirs.lstm
    parts = layer.filters(), layer.recurrent(), layer.biases()  # type: ignore[operator]
    gates = ("input", "forget", "candidate", "output")
    with torch.no_grad():
        filters, recurrent, bias = (torch.stack([part[g] for g in gates]) for part in parts)
        lstm.weight_ih_l0.copy_(filters.flip(-1).flatten(0, 1).flatten(1))  # oldest slot first
        lstm.weight_hh_l0.copy_(recurrent.flatten(0, 1))
        lstm.bias_ih_l0.copy_(bias.flatten())
        lstm.bias_hh_l0.zero_()
        signal = torch.randn(2, CHANNELS, samples, dtype=torch.float64)
        wanted = theirs.states(signal)
        found = layer(signal.permute(2, 0, 1))[0]
    if (found - wanted).abs().max().item() > 1e-9:
        raise SystemExit("the n-gram LSTM differs from nn.LSTM on its windows")


def measure(stride: int, samples: int, batch: int, repeats: int) -> Rounds:
    """Time a training step of every model: forward, backward, Adam."""
    signal, labels = torch.randn(batch, CHANNELS, samples), torch.randint(CLASSES, (batch,))

    def trains(network: nn.Module) -> Callable[[], None]:
        optimizer = torch.optim.Adam(network.parameters(), 1e-3)

        def step() -> None:
            optimizer.zero_grad()
            F.cross_entropy(network(signal), labels).backward()
            optimizer.step()

        return step

    candidates = [Candidate(name, trains(model(cell, stride))) for name, cell in CELLS.items()]
    candidates.append(Candidate(BASELINE, trains(Unfolded(stride))))
    return interleave(candidates, time.process_time, repeats, 3)


def latencies(stride: int, steps: int) -> list[float]:
    """Return the seconds of single steps of a stream of the RKM-LSTM, in rising order."""
    stream = SignalStream(model("rkm-lstm", stride))
    samples, seconds = torch.randn(CHANNELS, stride), []
    for _ in range(steps):
        started = time.perf_counter()
        stream.step(samples)
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)


def page(found: dict[int, Rounds], steps: dict[int, list[float]], loads: tuple[str, str]) -> str:
    """Return the page in Markdown."""
    rows, ratios = [], {}
    for stride, rounds in found.items():
        for name in rounds.seconds:
            ratio = rounds.ratio(BASELINE, name).median
            milliseconds = f"{1000 * rounds.spread(name).median:.1f}"
            rows.append([f"{stride}", name, milliseconds, number(ratio)])
            if name == next(iter(CELLS)):
                ratios[stride] = ratio
    waits = [
        [f"{stride}", f"{1e6 * statistics.median(s):.0f}", f"{1e6 * s[int(0.95 * len(s))]:.0f}"]
        for stride, s in steps.items()
    ]
    told = ", ".join(
        f"{number(ratio)} times at a stride of {stride} ({'met' if ratio >= GOAL else 'missed'})"
        for stride, ratio in ratios.items()
    )
    lines = [
        "# Signals: wavelets beside unfolded windows",
        "",
        "Generated by the command below; no number was typed. A training step (forward,",
        f"backward, Adam) on {BATCH} windows of {TIME} samples and {CHANNELS} channels, filters of",
        f"{LENGTH} samples, {UNITS} units; an epoch is as many of them as there are batches. One",
        "thread, CPU time, float32, candidates interleaved in one process, medians, ratios within",
        f"each round. The baseline copies every window of {LENGTH} samples and has a free filter",
        "for each channel; with equal filters its states are the same, which was checked first.",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
        "",
        table(["stride", "", "ms", f"speedup over {BASELINE}"], rows),
        "",
        f"The goal is {GOAL:g} times for the same cell, the n-gram LSTM: {told}.",
        "",
        "A step of a stream (`SignalStream`, RKM-LSTM), from a stride of samples to probabilities,",
        "wall clock.",
        "",
        table(["stride", "median, µs", "95 of 100 below, µs"], waits),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
