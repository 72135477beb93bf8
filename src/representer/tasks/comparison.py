"""Compare models on repeated splits: run what is missing, and keep each result as it comes."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer import jobs
from representer.errors import (
    Interrupted,
    TrainingError,
    aligned,
    markdown,
    markdown_code,
    say,
    show,
)
from representer.estimators.explanation import BOTH
from representer.machine import limited
from representer.report.metrics import (
    FEWEST,
    difference_of_squares,
    exact_p,
    extended,
    sums_of_groups,
    t_quantile,
)
from representer.report.summary import AHEAD, BEHIND, LEVEL, TOO_FEW
from representer.storage import atomic
from representer.tasks.results import CONSTANTS
from representer.tasks.worklist import WorkList, locked
from representer.training.config import EXECUTION, plain
from representer.training.generators import fingerprint

# Options that do not change the results, or that a comparison sets itself.
WITHOUT_EFFECT = (
    *EXECUTION, "data", "valid", "test", "out", "resume", "demo", "answer", "conformal",
    "conformal_by", "threads",
)  # fmt: skip
SETTINGS, RESULTS = "comparison.json", "results.jsonl"
MODEL_UNIT, BASELINES = "model", "baselines"


@dataclass(frozen=True)
class Result:
    """A model on the test part of one split."""

    name: str  # name of the model or the baseline
    # of each test example ``(N,)``: 1 for a wrong class, the squared error of a number, or the
    # negative log-likelihood of a token
    losses: Sequence[float]
    seconds: float  # time of training
    train: int  # number of examples for training and validation
    is_baseline: bool = False  # True for a baseline
    test: int | None = None  # number of test examples; that of the losses if left out
    auc: float | None = None  # area under the ROC curve, for two classes
    # the group of each test example, if those of a group may be alike
    groups: Sequence[str] | None = None


Rows = dict[str, dict[int, Result]]  # by name and split


class Unit(NamedTuple):
    """The smallest amount of work: a split, a name, and the options of a variant as JSON."""

    split: int
    name: str
    options: str


@dataclass(frozen=True, kw_only=True)
class Comparison(ABC):
    """The models of one data set, and the splits that they are trained and tested on.

    Several processes may run it, so it must be possible to pickle it.
    """

    config: Any
    splits: Sequence[int] = range(5)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    @abstractmethod
    def title(self) -> str:
        """The data and the kind of the splits, for the head of the table."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the metric, one of `comparison_statistics.METRICS`."""

    @property
    @abstractmethod
    def has_fixed_test(self) -> bool:
        """True if all splits have the same test part and differ in their seed."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything but splits and variants that determines the results."""

    def options(self) -> dict[str, Any]:
        """Return the options of ``fit`` that determine the results."""
        chosen = asdict(self.config)
        return {name: value for name, value in chosen.items() if name not in WITHOUT_EFFECT}

    @abstractmethod
    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one split.

        ``unit`` is `MODEL`, `BASELINES`, or the name of a variant.
        """

    def units(self) -> list[Unit]:
        """Return everything that is run, split by split."""
        names = (BASELINES, MODEL_UNIT, *self.variants)
        return [
            Unit(split, name, json.dumps(plain(self.variants.get(name, {})), sort_keys=True))
            for split in self.splits
            for name in names
        ]


def parts_of(estimator: Any, seconds: float) -> list[tuple[str, float, Any]]:
    """Return name, seconds and estimator of everything that predicts in a fitted estimator.

    Of two parts, the last entry is ``"both"``; ``seconds`` are those of all of it.
    """
    parts = {name: half.seconds or 0.0 for name, half in estimator.parts_.items()}
    if len(parts) == 1:
        return [(name, time, estimator) for name, time in parts.items()]
    return [(name, time, estimator.part(name)) for name, time in (parts | {BOTH: seconds}).items()]


def run_missing(
    comparison: Comparison, folder: Path, *, jobs: int = 1, report: Callable[[str], None] = say,
) -> Rows:  # fmt: skip
    """Run what is missing in a folder, and return all results.

    A unit whose training diverges is reported and left out.

    Raises:
        ArgumentError: The folder holds another comparison, or other files.
        DataError: A file of the comparison is damaged.
        RunFolderError: Another process writes into the folder.
    """
    with locked(folder, SETTINGS, "a comparison"):
        work = WorkList(folder, (SETTINGS, RESULTS), comparison.settings, _line, _entry)
        units = comparison.units()
        waiting = [unit for unit in units if unit not in work.finished]
        done = len(units) - len(waiting)
        try:
            for unit, outcome in work.run(_run, waiting, lambda unit: (comparison, unit), jobs):
                about = f"split {unit.split + 1}, {unit.name}"
                if isinstance(outcome, TrainingError):  # divergence does not stop the others
                    report(f"{about}: {outcome}")
                    continue
                done += 1
                seconds = max((row.seconds for row in outcome), default=0.0)
                report(f"{done}/{len(units)} {about}: {seconds:.1f} s")
        except Interrupted as error:
            kept = f"Finished results are kept in {folder}; the same command continues."
            raise Interrupted(f"stopped by a signal. {kept}", error.exit_code) from None
        return _rows(comparison, work.finished)


def finished(comparison: Comparison, folder: Path) -> Rows:
    """Return the results that a folder has, without running anything; see `run_missing`."""
    return _rows(comparison, jobs.finished(folder / RESULTS, _entry)[0])


def _run(comparison: Comparison, unit: Unit) -> list[Result]:
    with limited(getattr(comparison.config, "threads", None) or None):
        return comparison.run(unit.split, unit.name)


def _rows(comparison: Comparison, by_unit: Mapping[Unit, Sequence[Result]]) -> Rows:
    """Return the results of a comparison by row and split."""
    rows: Rows = {}
    for unit in comparison.units():
        for row in by_unit.get(unit, ()):
            rows.setdefault(row.name, {})[unit.split] = row
    return rows


def _line(unit: Unit, results: Sequence[Result]) -> dict[str, Any]:
    return {**unit._asdict(), "results": [asdict(row) for row in results]}


def _entry(line: dict[str, Any]) -> tuple[Unit, list[Result]]:
    results = [Result(**values) for values in line.pop("results")]
    return Unit(**line), results


# Scores over repeated splits, and paired differences, with 95 % intervals.
#
# Test parts that differ from split to split. The training parts overlap, so the splits are not
# independent, and s²/J is far too small a variance of the mean over J splits. Nadeau and Bengio's
# correction takes
#
#     (1/J + n_test/n_train) s²
#
# and Student's t with J − 1 degrees of freedom. Examples are not resampled: those of one subject
# depend on each other, and the differences of the splits contain both the choice of the test
# examples and that of the training examples. Of equal splits, and of fewer than `FEWEST` test
# examples, s² is at least the variance that the choice of the test examples explains. Splits of
# fewer than twice `FEWEST` test examples in all tell nothing: the interval of their difference
# contains 0.
#
# One test part for all splits. The splits differ in seed and validation part only, so s²/J lacks
# the choice of the test examples. Their variance is added: that of the mean over the splits of each
# example's influence on the score, over the number of examples. An interval of a difference is
# extended to 0 unless the test of a single split rejects, on the mean losses over all splits.
#
# References:
#     Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.


@dataclass(frozen=True)
class Metric:
    """A function of the mean loss."""

    name: str  # for tables
    unit: str  # of a score, with a space before it
    digits: int  # after the decimal point
    score: Callable[[float], float]  # from the mean loss
    slope: Callable[[float], float]  # its derivative
    range: tuple[float, float]  # the smallest and the largest possible score
    is_loss: bool = True  # True if smaller is better


METRICS = {
    "accuracy": Metric(
        "accuracy", " %", 1, lambda m: 100 * (1 - m), lambda m: -100.0, (0, 100), is_loss=False
    ),
    "rmse": Metric(
        "RMSE", "", 4, math.sqrt, lambda m: 0.5 / math.sqrt(m) if m > 0 else 0.0, (0, math.inf)
    ),
    "perplexity": Metric("perplexity", "", 2, math.exp, math.exp, (1, math.inf)),
}


class Interval(NamedTuple):
    """A mean over splits with its 95 % interval; NaN bounds for a single split."""

    mean: float
    low: float
    high: float


def scores(results: Mapping[int, Result], metric: Metric) -> NDArray[np.float64]:
    """Return the score on each split ``(J,)``."""
    return np.array([metric.score(float(np.mean(row.losses))) for row in results.values()])


def areas(results: Mapping[int, Result]) -> dict[int, float]:
    """Return the area under the ROC curve on each split that has one."""
    return {split: row.auc for split, row in results.items() if row.auc is not None}


def area_interval(first: Mapping[int, Result], second: Mapping[int, Result]) -> Interval:
    """Return the area of one row minus that of another, for test parts that differ by split."""
    ours, other = areas(first), areas(second)
    shared = [split for split in ours if split in other]
    if not shared:
        return Interval(math.nan, math.nan, math.nan)
    differences = np.array([ours[split] - other[split] for split in shared])
    return _interval(differences, _ratio({split: first[split] for split in shared}), [])


def score_interval(
    results: Mapping[int, Result], metric: Metric, *, has_fixed_test: bool
) -> Interval:
    """Return the mean score of a row over its splits."""
    influences = _influences(results, metric)
    interval = _interval(scores(results, metric), _ratio(results), influences, has_fixed_test)
    return Interval(interval.mean, *np.clip(interval[1:], *metric.range).tolist())


def paired_interval(
    first: Mapping[int, Result], second: Mapping[int, Result], metric: Metric, *,
    has_fixed_test: bool,
) -> Interval:  # fmt: skip
    """Return the score of one row minus that of another, over the splits that both have."""
    shared = [split for split in first if split in second]
    if not shared:
        return Interval(math.nan, math.nan, math.nan)
    ours, other = ({split: rows[split] for split in shared} for rows in (first, second))
    pairs = zip(_influences(ours, metric), _influences(other, metric), strict=True)
    influences = [ours - beside for ours, beside in pairs]
    values = scores(ours, metric) - scores(other, metric)
    interval = _interval(values, _ratio(ours), influences, has_fixed_test)
    if not has_fixed_test:
        tested = [row.test or len(row.losses) for row in ours.values()]
        most = min(sum(tested), max(row.train for row in ours.values()) + max(tested))
        most = len({group for row in ours.values() for group in row.groups or ()}) or most
        return Interval(
            interval.mean, *extended(interval.low, interval.high, float(most < 2 * FEWEST))
        )
    if len(influences[0]) < 2 or math.isnan(interval.low):
        return interval
    mean, beside = (
        np.mean([row.losses for row in rows.values()], axis=0) for rows in (ours, other)
    )
    groups = next(iter(ours.values())).groups
    d = _of_units(mean - beside, groups)
    if metric.is_loss:  # as of `rmse_difference`
        low, high = difference_of_squares(mean, beside, np.array(groups) if groups else None)
        p = float(len(d) < FEWEST or low <= 0 <= high)
    else:
        p = exact_p(int((d > 0).sum()), int((d < 0).sum()))
    return Interval(interval.mean, *extended(interval.low, interval.high, p))


def _interval(
    values: NDArray[np.float64], ratio: float, influences: Sequence[NDArray[np.float64]],
    has_fixed_test: bool = False,
) -> Interval:  # fmt: skip
    """Return the mean of some splits; NaN bounds if nothing tells how much they vary.

    ``ratio`` is the number of test examples over that of training examples; ``influences`` are
    those of the test examples of each split, none if they are unknown.
    """
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    spread = float(values.var(ddof=1)) if np.ptp(values) > 1e-9 * abs(mean) else 0.0
    if has_fixed_test:
        shared = np.mean(influences, axis=0)
        of_examples = t_quantile(len(shared)) ** 2 * _variance(shared)
        half = math.sqrt(t_quantile(count) ** 2 * spread / count + of_examples)
    else:
        if not spread or min(map(len, influences), default=FEWEST) < FEWEST:
            spread = max(
                spread, float(np.mean([_variance(influence) for influence in influences or [[]]]))
            )
        half = t_quantile(count) * math.sqrt((1 / count + ratio) * spread)
    half = half or (math.nan if mean else 0.0)
    return Interval(mean, mean - half, mean + half)


def _variance(values: Any) -> float:
    """Return the variance of a mean; 0 of fewer than two values."""
    return float(np.var(values, ddof=1)) / len(values) if len(values) > 1 else 0.0


def _ratio(results: Mapping[int, Result]) -> float:
    sizes = [(row.test or len(row.losses), row.train) for row in results.values()]
    return float(np.mean([test / train for test, train in sizes]))


def _influences(results: Mapping[int, Result], metric: Metric) -> list[NDArray[np.float64]]:
    """Return the influence on the score of each split, of each test example or group ``(N,)``."""
    losses = [(np.asarray(row.losses, dtype=np.float64), row.groups) for row in results.values()]
    return [
        metric.slope(float(values.mean())) * _of_units(values - values.mean(), groups)
        for values, groups in losses
    ]


def _of_units(values: NDArray[np.float64], groups: Sequence[str] | None) -> NDArray[np.float64]:
    return sums_of_groups(values, np.array(groups)) if groups else values


# The table of a comparison: scores, differences to the best baseline, and a recommendation.

PAGE = "table.md"
CHEAPER = 0.5  # fraction of the seconds from which a row is worth naming as cheaper


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the table."""

    name: str  # name of the model or the baseline
    score: Interval  # mean over the splits
    difference: Interval | None  # to the best baseline; None for it, or if no baseline has finished
    seconds: float  # median time of training
    splits: int  # number of splits
    is_baseline: bool  # True for a baseline
    auc: float | None = None  # mean area under the ROC curve; None without two classes


@dataclass(frozen=True)
class ComparisonTable:
    """The rows of a comparison, the best ones first."""

    metric: Metric
    rows: Sequence[ComparisonRow]
    results: Rows  # the results that they summarize
    has_fixed_test: bool  # as of the comparison

    @classmethod
    def of(cls, comparison: Comparison, results: Rows) -> ComparisonTable:
        """Summarize the results of a comparison."""
        metric, fixed = METRICS[comparison.metric], comparison.has_fixed_test
        intervals = {
            name: score_interval(rows, metric, has_fixed_test=fixed)
            for name, rows in results.items()
        }
        names = sorted(results, key=lambda name: _rank(metric, intervals[name]))
        baselines = {name for name in names if next(iter(results[name].values())).is_baseline}
        reference = next((name for name in names if name in baselines), None)
        rows = []
        for name in names:
            by_split = results[name]
            difference = None
            if reference is not None and reference != name:
                difference = paired_interval(
                    by_split, results[reference], metric, has_fixed_test=fixed
                )
            seconds = float(np.median([row.seconds for row in by_split.values()]))
            aucs = [*areas(by_split).values()]
            auc = float(np.mean(aucs)) if aucs else None
            is_baseline = name in baselines
            rows.append(
                ComparisonRow(
                    name, intervals[name], difference, seconds, len(by_split), is_baseline, auc
                )
            )
        return cls(metric, rows, results, fixed)

    @property
    def baseline(self) -> ComparisonRow | None:
        """The best baseline."""
        return next((row for row in self.rows if row.is_baseline), None)

    @property
    def has_few_groups(self) -> bool:
        """True if the test objects of all splits are of fewer than `FEWEST` groups."""
        results = (row for by_split in self.results.values() for row in by_split.values())
        groups = {name for row in results for name in row.groups or ()}
        return 0 < len(groups) < FEWEST

    def difference(self, first: ComparisonRow, second: ComparisonRow) -> Interval:
        """Return the paired difference of two rows."""
        ours, other = self.results[first.name], self.results[second.name]
        return paired_interval(ours, other, self.metric, has_fixed_test=self.has_fixed_test)

    def relation(self, difference: Interval) -> str:
        """Return "ahead of", "behind" or "level with", by the interval of a difference.

        Without an interval, as of a single split, it is "too few to tell", and so it is of fewer
        than `FEWEST` groups of test objects, such as subjects.
        """
        if math.isnan(difference.low) or self.has_few_groups:
            return TOO_FEW
        if self.is_level(difference):
            return LEVEL
        return BEHIND if (difference.mean > 0) == self.metric.is_loss else AHEAD

    def recommendation(self) -> str:
        """Return what to use, in one sentence; empty without results.

        It names the best row, the best one of the other kind (model or baseline), and the fastest
        one that is level with the best and no constant.
        """
        if not self.rows:
            return ""
        best = self.rows[0]
        others = [row for row in self.rows[1:] if row.is_baseline != best.is_baseline]
        differences = {row.name: self.difference(best, row) for row in self.rows[1:]}
        level = [
            row for row in self.rows[1:]
            if self.is_level(differences[row.name]) and row.name not in CONSTANTS
        ]  # fmt: skip
        fastest = min(level, key=lambda row: row.seconds, default=best)
        is_faster = fastest.seconds < CHEAPER * best.seconds
        times = f"takes {_seconds(fastest)} instead of {_seconds(best)}"
        sentence = f"Use {best.name} ({self.metric.name} {self._number(best.score.mean)}"
        sentence += f"{self.metric.unit})"
        if others:
            difference = differences[others[0].name]
            relation, beside = self.relation(difference), others[0].name
            about = f"which is {relation}"
            few = f"on too few {'groups' if self.has_few_groups else 'splits'} to tell it from"
            about = few if relation == TOO_FEW else about
            sentence += f", {about} {beside} ({self.signed(difference)})"
        if is_faster and fastest in others[:1]:
            sentence += f"; {fastest.name} {times}"
        elif is_faster:
            difference = self.signed(self.difference(fastest, best))
            beside = "not told apart from" if self.has_few_groups else LEVEL
            sentence += f"; {fastest.name} is {beside} it ({difference}) and {times}"
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
        if math.isnan(low) or self.has_few_groups:
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
        unit = " points" if self.metric.unit else ""
        return mean + unit if math.isnan(difference.low) else f"{mean}{unit}, {low} to {high}"

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


def as_text(table: ComparisonTable) -> str:
    """Return the table for the terminal, with the recommendation."""
    return "\n".join([*aligned(table.cells()), "", table.recommendation()])


def as_markdown(table: ComparisonTable) -> list[str]:
    """Return the table as lines of Markdown, with the recommendation."""
    cells = table.cells()
    head, *body = (f"| {' | '.join([markdown(row[0]), *row[1:]])} |" for row in cells)
    sentence = markdown(table.recommendation())
    return [head, f"|---|{'---:|' * (len(cells[0]) - 1)}", *body, "", sentence]


def run_and_report(
    comparison: Comparison, folder: Path, *, jobs: int, command: str, as_json: bool = False
) -> ComparisonTable:
    """Run what is missing, write ``table.md`` into the folder, and print the table."""
    table = ComparisonTable.of(comparison, run_missing(comparison, folder, jobs=jobs))
    machine = fingerprint()
    software = f"torch {machine['torch']}, {machine['cpu capability']}"
    about = f"Made by {markdown_code(command)} with {software}."
    lines = [f"# {markdown(comparison.title)}", "", about, "", *as_markdown(table)]
    atomic.write_text(folder / PAGE, "\n".join(lines) + "\n")
    if as_json:
        rows = [
            {"name": row.name, "metric": table.metric.name, "score": _finite(row.score),
             "difference": row.difference and _finite(row.difference), "auc": row.auc,
             "seconds": row.seconds, "splits": row.splits, "is_baseline": row.is_baseline}
            for row in table.rows
        ]  # fmt: skip
        print(json.dumps(rows))
    else:
        show(f"{comparison.title}\n\n{as_text(table)}\n\n{folder / PAGE}")
    return table


def _finite(interval: Interval) -> list[float | None]:
    return [None if math.isnan(number) else number for number in interval]


def _rank(metric: Metric, score: Interval) -> float:
    return score.mean if metric.is_loss else -score.mean


def _seconds(row: ComparisonRow) -> str:
    return f"{row.seconds:.1f} s"
