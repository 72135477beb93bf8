"""The table of a comparison: scores, differences to the best baseline, and a recommendation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from representer.printable import aligned, markdown, markdown_code, show
from representer.report.standing import AHEAD, BEHIND, LEVEL, TOO_FEW
from representer.storage import atomic
from representer.tasks.comparison import Comparison, Rows, run_missing
from representer.tasks.comparison_statistics import (
    METRICS,
    Interval,
    Metric,
    area_interval,
    areas,
    paired_interval,
    score_interval,
)
from representer.training.fingerprint import fingerprint

PAGE = "table.md"
CHEAPER = 0.5  # fraction of the seconds from which a row is worth naming as cheaper


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: Name of the model or the baseline.
        score: Mean over the splits.
        difference: To the best baseline; None for it, or if no baseline has finished.
        seconds: Median time of training.
        splits: Number of splits.
        is_baseline: True for a baseline.
        auc: Mean area under the ROC curve; None without two classes.
    """

    name: str
    score: Interval
    difference: Interval | None
    seconds: float
    splits: int
    is_baseline: bool
    auc: float | None = None


@dataclass(frozen=True)
class Table:
    """The rows of a comparison, the best ones first.

    Attributes:
        metric: The metric.
        rows: The rows.
        results: The results that they summarize.
        has_fixed_test: As of the comparison.
    """

    metric: Metric
    rows: Sequence[Row]
    results: Rows
    has_fixed_test: bool

    @classmethod
    def of(cls, comparison: Comparison, results: Rows) -> Table:
        """Summarize the results of a comparison."""
        metric, fixed = METRICS[comparison.metric], comparison.has_fixed_test
        intervals = {
            name: score_interval(own, metric, has_fixed_test=fixed) for name, own in results.items()
        }
        names = sorted(results, key=lambda name: _rank(metric, intervals[name]))
        baselines = {name for name in names if next(iter(results[name].values())).is_baseline}
        reference = next((name for name in names if name in baselines), None)
        rows = []
        for name in names:
            own = results[name]
            difference = None
            if reference is not None and reference != name:
                difference = paired_interval(own, results[reference], metric, has_fixed_test=fixed)
            seconds = float(np.median([one.seconds for one in own.values()]))
            found = [*areas(own).values()]
            auc = float(np.mean(found)) if found else None
            is_baseline = name in baselines
            rows.append(Row(name, intervals[name], difference, seconds, len(own), is_baseline, auc))
        return cls(metric, rows, results, fixed)

    @property
    def baseline(self) -> Row | None:
        """The best baseline."""
        return next((row for row in self.rows if row.is_baseline), None)

    def difference(self, first: Row, second: Row) -> Interval:
        """Return the paired difference of two rows."""
        one, other = self.results[first.name], self.results[second.name]
        return paired_interval(one, other, self.metric, has_fixed_test=self.has_fixed_test)

    def relation(self, difference: Interval) -> str:
        """Return "ahead of", "behind" or "level with", by the interval of a difference.

        Without an interval, as of a single split, it is "too few to tell".
        """
        if math.isnan(difference.low):
            return TOO_FEW
        if self.is_level(difference):
            return LEVEL
        return BEHIND if (difference.mean > 0) == self.metric.is_loss else AHEAD

    def recommendation(self) -> str:
        """Return what to use, in one sentence; empty without results.

        It names the best row, the best one of the other kind (model or baseline), and the fastest
        one that is level with the best.
        """
        if not self.rows:
            return ""
        best = self.rows[0]
        others = [row for row in self.rows[1:] if row.is_baseline != best.is_baseline]
        differences = {row.name: self.difference(best, row) for row in self.rows[1:]}
        level = [row for row in self.rows[1:] if self.is_level(differences[row.name])]
        fastest = min(level, key=lambda row: row.seconds, default=best)
        is_faster = fastest.seconds < CHEAPER * best.seconds
        times = f"takes {_seconds(fastest)} instead of {_seconds(best)}"
        sentence = f"Use {best.name} ({self.metric.name} {self._number(best.score.mean)}"
        sentence += f"{self.metric.unit})"
        if others:
            difference = differences[others[0].name]
            relation, beside = self.relation(difference), others[0].name
            about = f"which is {relation}"
            about = "on too few splits to tell it from" if relation == TOO_FEW else about
            sentence += f", {about} {beside} ({self.signed(difference)})"
        if is_faster and fastest in others[:1]:
            sentence += f"; {fastest.name} {times}"
        elif is_faster:
            difference = self.signed(self.difference(fastest, best))
            sentence += f"; {fastest.name} is level with it ({difference}) and {times}"
        return f"{sentence}.{self._by_area()}"

    def _by_area(self) -> str:
        """Return which row ranks best, if another one than that with the highest accuracy.

        On few examples of one class, all models may be right on the others alone.
        """
        ranked = [row for row in self.rows if row.auc is not None]
        ranked.sort(key=lambda row: -(row.auc or 0.0))
        others = [row for row in ranked[1:] if row.is_baseline != ranked[0].is_baseline]
        if self.has_fixed_test or not others or ranked[0] is self.rows[0]:
            return ""
        best, other = ranked[0], others[0]
        mean, low, high = area_interval(self.results[best.name], self.results[other.name])
        if math.isnan(low):
            return ""
        relation = AHEAD if low > 0 else LEVEL
        return (
            f" To rank by probability, {best.name} is the best (area under the ROC curve "
            f"{best.auc:.3f}): {relation} {other.name} ({mean:+.3f}, {low:+.3f} to {high:+.3f})."
        )

    def is_level(self, difference: Interval) -> bool:
        """Return True if the interval of a difference contains 0."""
        return difference.low <= 0 <= difference.high

    def signed(self, difference: Interval) -> str:
        """Return a difference with its interval as text."""
        mean, low, high = (f"{number:+.{self.metric.digits}f}" for number in difference)
        if math.isnan(difference.mean):
            return "no common split"
        return mean if math.isnan(difference.low) else f"{mean}, {low} to {high}"

    def cells(self) -> list[list[str]]:
        """Return the head and the rows as texts: score, interval, difference, AUC, seconds."""
        reference = self.baseline
        against = f"difference to {reference.name}" if reference else "difference"
        scored = self.metric.name + (f" in{self.metric.unit}" if self.metric.unit else "")
        has_area = any(row.auc is not None for row in self.rows)
        head = ["", scored, "95 % interval", against, *["AUC"] * has_area, "training"]
        body, most = [], max((row.splits for row in self.rows), default=0)
        for row in self.rows:
            name = row.name if row.splits == most else f"{row.name} ({row.splits} of {most} splits)"
            mean, low, high = (self._number(number) for number in row.score)
            interval = "–" if math.isnan(row.score.low) else f"{low} – {high}"
            difference = "" if row.difference is None else self.signed(row.difference)
            area = ["–" if row.auc is None else f"{row.auc:.3f}"] * has_area
            body.append([name, mean, interval, difference, *area, _seconds(row)])
        return [head, *body]

    def _number(self, value: float) -> str:
        return f"{value:.{self.metric.digits}f}"


def as_text(table: Table) -> str:
    """Return the table for the terminal, with the recommendation."""
    return "\n".join([*aligned(table.cells()), "", table.recommendation()])


def as_markdown(table: Table) -> list[str]:
    """Return the table as lines of Markdown, with the recommendation."""
    cells = table.cells()
    head, *body = (f"| {' | '.join([markdown(row[0]), *row[1:]])} |" for row in cells)
    sentence = markdown(table.recommendation())
    return [head, f"|---|{'---:|' * (len(cells[0]) - 1)}", *body, "", sentence]


def run_and_report(comparison: Comparison, folder: Path, *, jobs: int, command: str) -> Table:
    """Run what is missing, write ``table.md`` into the folder, and print the table."""
    table = Table.of(comparison, run_missing(comparison, folder, jobs=jobs))
    machine = fingerprint()
    software = f"torch {machine['torch']}, {machine['cpu capability']}"
    about = f"Made by {markdown_code(command)} with {software}."
    lines = [f"# {markdown(comparison.title)}", "", about, "", *as_markdown(table)]
    atomic.write_text(folder / PAGE, "\n".join(lines) + "\n")
    show(f"{comparison.title}\n\n{as_text(table)}\n\n{folder / PAGE}")
    return table


def _rank(metric: Metric, score: Interval) -> float:
    return score.mean if metric.is_loss else -score.mean


def _seconds(row: Row) -> str:
    return f"{row.seconds:.1f} s"
