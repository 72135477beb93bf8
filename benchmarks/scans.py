"""gated_scan beside the speed of the memory it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from cases import FORWARD, TRAINING
from machine import Limits
from representer.ops import gated_scan
from results import Judged
from timing import Candidate, Clock, Rounds, Spread, interleave

BATCH, UNITS = 32, 300
MEBIBYTES = (4, 25)  # of one array: several of them fit the last cache, or do not
GOALS = {FORWARD: 0.7, TRAINING: 0.6}  # shares of the memory's bandwidth


@dataclass(frozen=True)
class Row:
    """One way of running it: bytes per second, and the share of the memory bandwidth."""

    size: int
    what: str
    mode: str
    milliseconds: float
    rate: float
    share: Spread
    threads: int = 1

    def judged(self) -> Judged:
        """Return the row of the goal."""
        what = f"gated_scan, {self.what}, arrays of {self.size} MiB: share of the memory's speed"
        least = GOALS[self.mode]
        verdict = "met" if self.share.median >= least else "missed"
        return Judged(what, least, self.share, 1.0, verdict)


def scan_rows(clock: Clock, repeats: int, limits: Limits) -> list[Row]:
    """Time gated_scan on arrays of several sizes."""
    rows = []
    for size in MEBIBYTES:
        made, moved = _candidates(size)
        rounds: Rounds = interleave(made, clock, repeats, repeats)
        for candidate in made:
            seconds = rounds.spread(candidate.name)
            count, mode = moved[candidate.name], candidate.name.partition(",")[0]
            rate = count / seconds.median
            times = (seconds.median, seconds.high, seconds.low)
            share = Spread(*(count / each / limits.memory[size] for each in times))
            rows.append(Row(size, candidate.name, mode, 1e3 * seconds.median, rate, share))
    return rows


def _candidates(size: int) -> tuple[list[Candidate], dict[str, int]]:
    """Return the candidates on arrays of ``size`` MiB, and the minimum bytes that each moves."""
    time = size * 2**20 // (4 * BATCH * UNITS)
    array = 4 * time * BATCH * UNITS
    u, gradient = (torch.randn(time, BATCH, UNITS) for _ in range(2))
    decays = {"(T, B, H)": torch.rand(time, BATCH, UNITS), "(H,)": torch.rand(UNITS)}
    arrays = {  # u, states and a full decay; backward also the gradients of each
        (FORWARD, "(T, B, H)"): 3,
        (FORWARD, "(H,)"): 2,
        (TRAINING, "(T, B, H)"): 8,
        (TRAINING, "(H,)"): 5,
    }
    made = [
        Candidate(f"{mode}, decay {shape}", _run(u, decays[shape], gradient, mode != FORWARD))
        for mode, shape in arrays
    ]
    moved = [n * array for n in arrays.values()]
    return made, dict(zip((c.name for c in made), moved, strict=True))


def _run(
    u: torch.Tensor, f: torch.Tensor, gradient: torch.Tensor, with_backward: bool
) -> Callable[[], object]:
    u, f = u.clone().requires_grad_(with_backward), f.clone().requires_grad_(with_backward)

    def run() -> None:
        u.grad = f.grad = None
        states, _ = gated_scan(u, f)
        if with_backward:
            states.backward(gradient)

    return run
