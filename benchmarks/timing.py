"""Timing of several candidates: interleaved in one process, compared round by round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

Clock = Callable[[], float]


def cpu(run: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Return what a call returns, and its CPU seconds."""
    started = time.process_time()
    return run(*arguments, **options), time.process_time() - started


def descend(optimizer: Optimizer, loss: Callable[[], Tensor]) -> None:
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


@dataclass(frozen=True)
class Candidate:
    """Code to time; a slow candidate runs in a few rounds only."""

    name: str
    run: Callable[[], object]
    is_slow: bool = False


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of several numbers."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(numbers: Sequence[float]) -> Spread:
        """Summarize a non-empty sequence of numbers."""
        ordered = sorted(numbers)
        quarter = len(ordered) // 4
        return Spread(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter])


def seconds_of(run: Callable[[], object], clock: Clock, rounds: int) -> Spread:
    """Return the seconds of one call, after a call that is not timed."""
    return interleave([Candidate("", run)], clock, rounds, rounds).spread("")


@dataclass(frozen=True)
class Rounds:
    """Seconds of each candidate by round."""

    seconds: dict[str, dict[int, float]]

    def spread(self, name: str) -> Spread:
        """Return the seconds of one candidate."""
        return Spread.of(list(self.seconds[name].values()))

    def ratio(self, over: str, name: str) -> Spread:
        """Return the speedup of ``name`` over ``over``, computed within each common round."""
        baseline, candidate_seconds = self.seconds[over], self.seconds[name]
        return Spread.of(
            [baseline[i] / candidate_seconds[i] for i in baseline if i in candidate_seconds]
        )


def interleave(
    candidates: Sequence[Candidate], clock: Clock, repeats: int, slow_repeats: int
) -> Rounds:
    """Time every candidate once per round, each round beginning with another one.

    A change in the machine's speed thus affects all of them alike. Before the rounds every
    candidate runs once, untimed.
    """
    seconds: dict[str, dict[int, float]] = {c.name: {} for c in candidates}
    for candidate in candidates:
        candidate.run()
    between = max(1, repeats // slow_repeats)
    for number in range(repeats):
        first = number % len(candidates)
        for candidate in [*candidates[first:], *candidates[:first]]:
            if candidate.is_slow and (number % between or number >= between * slow_repeats):
                continue
            started = clock()
            candidate.run()
            seconds[candidate.name][number] = clock() - started
    return Rounds(seconds)
