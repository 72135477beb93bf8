"""gated_scan beside the speed of the memory it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from machine import Limits
from representer.ops import gated_scan
from timing import Candidate, Clock, Rounds, interleave

BATCH, UNITS = 32, 300
MEBIBYTES = (4, 25)  # of one array: several of them fit the last cache, or do not


@dataclass(frozen=True)
class Row:
    """One way of running it: bytes per second, and the share of the memory bandwidth."""

    size: int
    what: str
    milliseconds: float
    rate: float
    share: float


def scan_rows(clock: Clock, repeats: int, limits: Limits) -> list[Row]:
    """Time gated_scan on arrays of several sizes."""
    rows = []
    for size in MEBIBYTES:
        made, moved = _candidates(size)
        rounds: Rounds = interleave(made, clock, repeats, repeats)
        for candidate in made:
            seconds = rounds.spread(candidate.name).median
            rate = moved[candidate.name] / seconds
            share = rate / limits.memory[size]
            rows.append(Row(size, candidate.name, 1e3 * seconds, rate, share))
    return rows


def _candidates(size: int) -> tuple[list[Candidate], dict[str, int]]:
    """Return the candidates on arrays of ``size`` MiB, and the minimum bytes that each moves."""
    time = size * 2**20 // (4 * BATCH * UNITS)
    array = 4 * time * BATCH * UNITS
    u, gradient = (torch.randn(time, BATCH, UNITS) for _ in range(2))
    decays = {"(T, B, H)": torch.rand(time, BATCH, UNITS), "(H,)": torch.rand(UNITS)}
    arrays = {  # u, states and a full decay; backward also the gradients of each
        ("forward", "(T, B, H)"): 3,
        ("forward", "(H,)"): 2,
        ("forward + backward", "(T, B, H)"): 8,
        ("forward + backward", "(H,)"): 5,
    }
    made = [
        Candidate(f"{mode}, decay {shape}", _run(u, decays[shape], gradient, mode != "forward"))
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
