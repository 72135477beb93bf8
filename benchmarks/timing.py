"""Candidates timed beside each other: interleaved in one process, compared round by round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True)
class Candidate:
    """Something to time; a slow one takes part in a few rounds only."""

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
        """Summarize numbers, of which there is at least one."""
        ordered = sorted(numbers)
        quarter = len(ordered) // 4
        return Spread(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter])


@dataclass(frozen=True)
class Rounds:
    """Seconds of each candidate by the number of the round."""

    seconds: dict[str, dict[int, float]]

    def spread(self, name: str) -> Spread:
        """Return the seconds of one candidate."""
        return Spread.of(list(self.seconds[name].values()))

    def ratio(self, over: str, name: str) -> Spread:
        """Return the time of ``over`` by that of ``name``, taken within each common round."""
        theirs, ours = self.seconds[over], self.seconds[name]
        return Spread.of([theirs[i] / ours[i] for i in theirs if i in ours])


def interleave(
    candidates: Sequence[Candidate], clock: Clock, repeats: int, slow_repeats: int
) -> Rounds:
    """Time every candidate once a round, the first of a round another one each time.

    A change of the machine's speed so meets all of them alike. Before the rounds every candidate
    runs once, which does not count.
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
