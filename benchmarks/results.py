"""Measurements, and the goals that they are compared with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from cases import (
    BY_INDEX,
    FORWARD,
    IN_SUCCESSION,
    IN_TURN,
    NO_INPUT_GRADIENT,
    OURS,
    READING,
    SIZES,
    STEP,
    STREAM,
    TRAINING,
    WITHOUT_CORE,
)
from machine import Limits
from timing import Rounds, Spread

STEPS, TORCH = "step", "torch"  # keys of the cases beside those of SIZES
PEAK = "the peak"
ONE_THREAD = ", one thread"
QUIET = 0.5  # load average up to which a machine is quiet


@dataclass(frozen=True)
class Measured:
    """One case in one mode.

    Attributes:
        rounds: Seconds of each candidate.
        operations: Floating-point operations of a run, of those candidates that are counted.
        load: Load average before and after.
    """

    rounds: Rounds
    operations: dict[str, float]
    load: tuple[float, float]

    def share(self, name: str, limits: Limits) -> Spread | None:
        """Return the share of the machine's peak that a candidate reaches."""
        if name not in self.operations:
            return None
        at_peak, taken = self.operations[name] / limits.peak, self.rounds.spread(name)
        return Spread(at_peak / taken.median, at_peak / taken.high, at_peak / taken.low)


Key = tuple[int, str, str]  # threads, case, mode


@dataclass
class Results:
    """All measurements; limits by the number of threads."""

    limits: dict[int, Limits] = field(default_factory=dict)
    measured: dict[Key, Measured] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """One row of the table of goals; ``bound`` is what a perfect implementation would reach."""

    what: str
    at_least: float
    found: Spread
    bound: float | None
    verdict: str


@dataclass(frozen=True)
class Goal:
    """A minimum speedup of ``name`` over ``over``, or a minimum share of the peak."""

    threads: int
    case: str
    mode: str
    name: str
    over: str
    at_least: float

    def found(self, results: Results) -> Spread | None:
        """Return the measured value; None if this case was not run."""
        measured = results.measured.get((self.threads, self.case, self.mode))
        if measured is None or self.name not in measured.rounds.seconds:
            return None
        if self.over == PEAK:
            return measured.share(self.name, results.limits[self.threads])
        if self.over not in measured.rounds.seconds:
            return None
        return measured.rounds.ratio(self.over, self.name)

    def bound(self, results: Results) -> float | None:
        """Return the value if products ran at the peak, or weights were read, and nothing else."""
        measured, limits = (
            results.measured[self.threads, self.case, self.mode],
            results.limits[self.threads],
        )
        if self.over == PEAK:
            return 1.0
        if self.over == self.name + ONE_THREAD:
            return limits.peak / results.limits[1].peak if 1 in results.limits else None
        baseline = measured.rounds.spread(self.over).median
        if READING in measured.rounds.seconds:
            return baseline / measured.rounds.spread(READING).median
        if self.name not in measured.operations:
            return None
        return baseline * limits.peak / measured.operations[self.name]

    def verdict(self, results: Results) -> str:
        """Return "met" or "missed" by the median; with several threads, name a high load."""
        found = self.found(results)
        assert found is not None
        verdict = "met" if found.median >= self.at_least else "missed"
        load = max(results.measured[self.threads, self.case, self.mode].load)
        if self.threads > 1 and load > self.threads + QUIET:
            return f"{verdict}, at a load of {load:.1f}: not a quiet machine"
        return verdict

    def judged(self, results: Results) -> Judged | None:
        """Return the row of this goal; None if its case was not run."""
        found = self.found(results)
        if found is None:
            return None
        over = "share of the peak" if self.over == PEAK else f"speedup over {self.over}"
        what = f"{self.name}, {title(self.case)}, {self.mode}: {over}"
        return Judged(what, self.at_least, found, self.bound(results), self.verdict(results))


def earlier(page: Path | None) -> dict[str, str]:
    """Return what the table of goals of an earlier page has measured, by the row's first cell."""
    if page is None:
        return {}
    lines = page.read_text(encoding="utf-8").partition("## Goals\n")[2].partition("\n## ")[0]
    rows = [re.split(r" *\| *", line)[1:-1] for line in lines.splitlines() if line[:1] == "|"]
    if not rows:
        raise SystemExit(
            f"--before {page}: there is no table of goals; expected a page of this script."
        )
    column = rows[0].index("measured")
    return {row[0]: row[column] for row in rows[2:]}


def title(case: str) -> str:
    """Return the heading of a case."""
    if case == STEPS:
        return f"one step, B = {STEP.batch}, m = d = {STEP.units}"
    if case == TORCH:
        return f"the torch backend, without compiled code, {WITHOUT_CORE}"
    return str(SIZES[case])


def goals() -> list[Goal]:
    """Return the goals of the project, those for one thread first."""
    both = (FORWARD, TRAINING)
    large = ("words", "documents")

    def beside_lstm(case: str, name: str, *ratios: float) -> list[Goal]:
        return [
            Goal(1, case, mode, name, "nn.LSTM", r) for mode, r in zip(both, ratios, strict=True)
        ]

    found = [g for case in large for g in beside_lstm(case, OURS[0], 1.05, 1.0)]
    found += beside_lstm("signals", OURS[0], 1.8, 2.0) + beside_lstm("points", OURS[0], 2.3, 1.8)
    for name, ratio in zip(OURS[1:], (1.3, 1.9, 3.6), strict=True):
        found += [g for case in large for g in beside_lstm(case, name, ratio, ratio)]
    found += [Goal(1, "signals", FORWARD, OURS[-1], "nn.LSTM", 4.5)]
    found += [Goal(1, "points", FORWARD, OURS[-1], "nn.LSTM", 4.3)]
    found += [Goal(1, case, mode, OURS[0], PEAK, 0.8) for case in large for mode in both]
    for mode in (IN_SUCCESSION, IN_TURN):
        found.append(Goal(1, STEPS, mode, OURS[0], "nn.LSTM", 4))
        found.append(Goal(1, STEPS, mode, OURS[0], "nn.LSTMCell", 1.3))
        found.append(Goal(1, STEPS, mode, OURS[0] + STREAM, "nn.LSTM", 15))
    found.append(Goal(1, "documents", TRAINING, OURS[0], BY_INDEX, 6))
    found.append(Goal(1, "signals", TRAINING, OURS[0], BY_INDEX, 40))
    found.append(Goal(1, TORCH, TRAINING, OURS[0], "nn.LSTM", 1 / 1.3))
    return found + [
        Goal(2, case, mode, OURS[0], OURS[0] + ONE_THREAD, 1.8) for case in SIZES for mode in both
    ]


def modes_of(case: str, small: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modes in which a case runs."""
    return (FORWARD, TRAINING, NO_INPUT_GRADIENT) if case in small else (FORWARD, TRAINING)
