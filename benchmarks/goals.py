"""Measurements on one thread of a CPU, and the goals that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import result_pages
from machine import Limits
from timing import Rounds, Spread

PEAK, READING = "the peak", "reading the weights of RKM-LSTM once"


@dataclass(frozen=True)
class Measured:
    """Seconds of each candidate, and the floating-point operations of those that are counted."""

    rounds: Rounds
    operations: dict[str, float]

    def share(self, name: str, limits: Limits) -> Spread | None:
        """Return the share of the machine's peak that a candidate reaches."""
        if name not in self.operations:
            return None
        fastest, taken = self.operations[name] / limits.peak, self.rounds.spread(name)
        return Spread(fastest / taken.median, fastest / taken.high, fastest / taken.low)


@dataclass
class Results:
    """All measurements by the title of the case and the mode."""

    limits: Limits
    measured: dict[tuple[str, str], Measured] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """A minimum speedup of ``name`` over ``over``, or a minimum share of the peak."""

    case: str
    mode: str
    name: str
    over: str
    least: float

    @property
    def what(self) -> str:
        """Return the first cell of its row."""
        over = "share of the peak" if self.over == PEAK else f"speedup over {self.over}"
        return f"{self.name}, {self.case}, {self.mode}: {over}"

    def value(self, results: Results) -> Spread | None:
        """Return the measured value; None if this case was not run."""
        measured = results.measured.get((self.case, self.mode))
        names = measured.rounds.seconds if measured else {}
        if measured is None or self.name not in names:
            return None
        if self.over == PEAK:
            return measured.share(self.name, results.limits)
        return measured.rounds.ratio(self.over, self.name) if self.over in names else None

    def bound(self, results: Results) -> float | None:
        """Return the value if products ran at the peak, or weights were read, and nothing else."""
        measured = results.measured[self.case, self.mode]
        if self.over == PEAK:
            return 1.0
        baseline = measured.rounds.spread(self.over).median
        if READING in measured.rounds.seconds:
            return baseline / measured.rounds.spread(READING).median
        if self.name not in measured.operations:
            return None
        return baseline * results.limits.peak / measured.operations[self.name]


def earlier(page: Path | None) -> dict[str, str]:
    """Return what the table of goals of an earlier page has measured, by the row's first cell."""
    if page is None:
        return {}
    section = page.read_text(encoding="utf-8").partition("## Goals\n")[2].partition("\n## ")[0]
    for head, rows in result_pages.tables(section):
        return {row[0]: row[head.index("measured")] for row in rows}
    raise SystemExit(
        f"--before {page}: there is no table of goals; expected a page of this script."
    )
