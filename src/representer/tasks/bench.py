"""Time candidates against each other: interleaved in one process, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from representer.errors import ArgumentError


@dataclass(frozen=True)
class Case:
    """Something to time.

    Attributes:
        name: Name in the table.
        run: Run it once.
    """

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Times of a case.

    Attributes:
        name: Name of the case.
        median: Seconds, median over the rounds.
        low: Lower quartile of the seconds.
        high: Upper quartile of the seconds.
        ratio: Time divided by the first case's in the same round, median over the rounds.
    """

    name: str
    median: float
    low: float
    high: float
    ratio: float


def compare(cases: Sequence[Case], repeats: int = 15, *, warm_ups: int = 2) -> list[Timing]:
    """Time cases against the first of them.

    Every round runs each case once, in rotated order, so that a change of the machine's speed
    affects all of them alike; the ratio is taken within a round.

    Args:
        cases: What to time; the others are compared with the first.
        repeats: Timed rounds.
        warm_ups: Untimed rounds before them.

    Raises:
        ArgumentError: If there is nothing to time.
    """
    if not cases:
        raise ArgumentError("cases", list(cases), "at least one case")
    if repeats < 1:
        raise ArgumentError("repeats", repeats, "at least 1")
    seconds: list[list[float]] = [[] for _ in cases]
    for round_number in range(-warm_ups, repeats):
        for offset in range(len(cases)):
            i = (round_number + offset) % len(cases)
            started = time.perf_counter()
            cases[i].run()
            elapsed = time.perf_counter() - started
            if round_number >= 0:
                seconds[i].append(elapsed)
    return [_timing(c.name, s, seconds[0]) for c, s in zip(cases, seconds, strict=True)]


def table(timings: Sequence[Timing]) -> str:
    """Return the timings as a Markdown table."""
    base = timings[0].name
    lines = [
        f"| what | median, ms | quartiles, ms | time by that of {base} |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {t.name} | {1e3 * t.median:.1f} | {1e3 * t.low:.1f} – {1e3 * t.high:.1f} "
        f"| {t.ratio:.2f} |"
        for t in timings
    ]
    return "\n".join(lines)


def _timing(name: str, seconds: Sequence[float], base: Sequence[float]) -> Timing:
    ordered = sorted(seconds)
    quarter = len(ordered) // 4
    return Timing(
        name,
        statistics.median(ordered),
        ordered[quarter],
        ordered[-1 - quarter],
        statistics.median(s / b for s, b in zip(seconds, base, strict=True)),
    )
