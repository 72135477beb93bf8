"""How fast the Gram matrix of the string kernel is beside batched torch, on one thread.

    python benchmarks/gram.py --out docs/results/gram.md

takes a few minutes; ``--quick`` takes one round of everything and is for development.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from machine import load
from report import machine_table, publish, spread, table
from representer.kernels import StringKernel
from representer.ops import core
from representer.ops.string_gram import string_gram
from timing import Candidate, Rounds, interleave

DECAY = 0.5
OURS, CORE = "kernels.StringKernel", "the core's dynamic program"
GOAL = 10.0
TOLERANCE = 1e-10  # of the largest entry, float64 against float64
ABOUT = """\
Written by the command below; no number here was typed. Random sequences of one length, λ = 0.5,
float64, the Gram matrix of N sequences with themselves, no gradient, one thread, the process's CPU
time. The candidates of a table ran interleaved in one process; a time is the median of the rounds
with the quartiles behind it, a ratio was taken within each round. Before anything was timed, its
values were compared with those of the Toeplitz form.

The torch forms are: *Toeplitz*, K_j = D (S ∘ K_{j−1}) Dᵀ with batched matrix products, a sequence
against all later ones at a time; *steps*, the dynamic program over (s, t) with all pairs in one
tensor; *two products* (n = 2, vectors) takes K_1 from a second product, that of the decayed sums.
`kernels.StringKernel` takes the explicit feature map of d^n numbers where that costs less than the
pairs, and the core otherwise; where it takes the features, its lead comes from them and not from
C++, and the core's row says what the pairs alone would give."""


@dataclass(frozen=True)
class Case:
    """Sequences and an order."""

    sequences: int
    time: int
    features: int  # 0 for tokens
    order: int

    @property
    def title(self) -> str:
        """What stands above the table."""
        kind = f"d = {self.features}" if self.features else "letters of 26"
        return f"{self.sequences} sequences of {self.time} tokens, {kind}, n = {self.order}"


GOAL_CASE = Case(128, 100, 100, 2)
CASES = (GOAL_CASE, Case(64, 100, 100, 3), Case(128, 40, 300, 2), Case(128, 100, 0, 3))


def similarities(x: Tensor, y: Tensor) -> Tensor:
    """Return S of sequences ``(…, T, d)``, or of tokens ``(…, T)``."""
    if x.dtype == torch.int64:
        return (x[..., :, None] == y[..., None, :]).double()
    return x @ y.mT


def discount(time: int) -> Tensor:
    at = torch.arange(time)
    return (DECAY ** (at[:, None] - at).clamp(min=0).double()).tril()


def toeplitz(x: Tensor, order: int) -> Tensor:
    D, gram = discount(x.shape[1]), torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(len(x)):
        S = similarities(x[i], x[i:])
        K = S
        for _ in range(order - 1):
            K = S * F.pad(D @ K @ D.T, (1, -1, 1, -1))
        gram[i, i:] = K @ D[-1] @ D[-1]
    return gram + gram.triu(1).T


def steps(x: Tensor, order: int) -> Tensor:
    N, T = x.shape[:2]
    chain = torch.zeros(order, T + 1, N, N, dtype=torch.float64)
    chain[0] = 1
    total = torch.zeros(N, N, dtype=torch.float64)
    for s in range(T):
        before = chain[:, 0].clone()
        before[1:] = 0
        filtered = torch.zeros(order, N, N, dtype=torch.float64)
        for t in range(T):
            if x.dtype == torch.int64:
                S = (x[:, None, s] == x[:, t]).double()
            else:
                S = x[:, s] @ x[:, t].T
            filtered = filtered.mul_(DECAY).add_(S * before)
            before = chain[:, t + 1].clone()
            chain[1:, t + 1].mul_(DECAY).add_(filtered[:-1])
        total = total * DECAY + filtered[-1]
    return total


def two_products(x: Tensor, order: int) -> Tensor:
    D, gram = discount(x.shape[1]), torch.zeros(len(x), len(x), dtype=torch.float64)
    sums = F.pad((D @ x)[:, :-1], (0, 0, 1, 0))
    for i in range(len(x)):
        gram[i, i:] = ((x[i] @ x[i:].mT) * (sums[i] @ sums[i:].mT)) @ D[-1] @ D[-1]
    return gram + gram.triu(1).T


def candidates(case: Case) -> tuple[list[Candidate], list[str]]:
    """Return what is timed, compared with each other before, and which of it is batched torch."""
    torch.manual_seed(0)
    size = (case.sequences, case.time)
    kernel = StringKernel(case.order, DECAY, base="linear" if case.features else "delta")
    if case.features:
        x = torch.randn(*size, case.features, dtype=torch.float64) / case.features**0.5
        given = list(x)
    else:
        x = torch.randint(0, 26, size)
        given = ["".join(chr(97 + token) for token in row) for row in x.tolist()]
    for_core = list(x.double())
    runs: dict[str, Callable[[], object]] = {
        OURS: lambda: kernel(given),
        CORE: lambda: string_gram(for_core, None, case.order, DECAY),
    }
    peers: dict[str, Callable[[], object]] = {
        "torch, Toeplitz": lambda: toeplitz(x, case.order),
        "torch, steps": lambda: steps(x, case.order),
    }
    if case.order == 2 and case.features:
        peers["torch, two products"] = lambda: two_products(x, 2)
    expected = toeplitz(x, case.order)
    for name, run in {**runs, **peers}.items():
        error = (torch.as_tensor(run()) - expected).abs().max() / expected.abs().max()
        if not error < TOLERANCE:
            raise SystemExit(f"{name}, {case.title}: off by {error:.1e}; nothing is timed")
    ours = [Candidate(name, run) for name, run in runs.items()]
    return ours + [Candidate(name, run, is_slow=True) for name, run in peers.items()], list(peers)


def section(case: Case, rounds: Rounds, peers: list[str]) -> str:
    best = min(peers, key=lambda name: rounds.spread(name).median)
    head = ["", "ms", f"time of {best} over its own"]
    rows = [
        [name, spread(rounds.spread(name), 1e3), spread(rounds.ratio(best, name))]
        for name in rounds.seconds
    ]
    text = f"## {case.title}\n\n{table(head, rows)}"
    if case == GOAL_CASE:
        found = rounds.ratio(best, OURS)
        verdict = "met" if found.low >= GOAL else "missed" if found.median < GOAL else "near"
        text += f"\n\nGoal: {OURS} ≥ {GOAL:.0f} times the best batched torch form. "
        text += f"Measured {spread(found)}: {verdict}."
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Gram matrices on this machine's CPU.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--quick", action="store_true", help="one round, not to be quoted")
    parser.add_argument("--repeats", type=int, default=15, help="rounds; torch takes part in 3")
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    torch.set_num_threads(1)
    before, parts = load(), []
    repeats, slow = (1, 1) if chosen.quick else (chosen.repeats, 3)
    for case in CASES:
        print(case.title, file=sys.stderr, flush=True)
        ours, peers = candidates(case)
        parts.append(section(case, interleave(ours, time.process_time, repeats, slow), peers))
    machine = machine_table(" ".join(["python", *sys.argv]), (before, load()))
    remark = ["A quick run for development: not to be quoted."] if chosen.quick else []
    page = ["# Gram matrices: measured speeds", ABOUT, *remark, machine, *parts]
    text = "\n\n".join(page) + "\n"
    publish(text, chosen.out)


if __name__ == "__main__":
    main()
