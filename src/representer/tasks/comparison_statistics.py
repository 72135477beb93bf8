r"""Scores over repeated splits, and paired differences, with 95 % intervals.

Test parts that differ from split to split. The training parts overlap, so the splits are not
independent, and s²/J is far too small a variance of the mean over J splits. Nadeau and Bengio's
correction takes

    (1/J + n_test/n_train) s²

and Student's t with J − 1 degrees of freedom. Examples are not resampled: those of one subject
depend on each other, and the differences of the splits contain both the choice of the test examples
and that of the training examples. Of equal splits, and of fewer than `FEWEST` test examples, s² is
at least the variance that the choice of the test examples explains. Splits of fewer than twice
`FEWEST` test examples in all tell nothing: the interval of their difference contains 0.

One test part for all splits. The splits differ in seed and validation part only, so s²/J lacks the
choice of the test examples. Their variance is added: that of the mean over the splits of each
example's influence on the score, over the number of examples. An interval of a difference is
extended to 0 unless the test of a single split rejects, on the mean losses over all splits.

References:
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer.report.metrics import FEWEST, exact_p, extended, t_quantile, variance_of_difference
from representer.tasks.comparison import Result


@dataclass(frozen=True)
class Metric:
    """A function of the mean loss.

    Attributes:
        name: For tables.
        unit: Of a score, with a space before it.
        digits: After the decimal point.
        score: From the mean loss.
        slope: Its derivative.
        range: The smallest and the largest possible score.
        is_loss: True if smaller is better.
    """

    name: str
    unit: str
    digits: int
    score: Callable[[float], float]
    slope: Callable[[float], float]
    range: tuple[float, float]
    is_loss: bool = True


METRICS = {
    "accuracy": Metric(
        "accuracy", " %", 2, lambda m: 100 * (1 - m), lambda m: -100.0, (0, 100), is_loss=False
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
    return np.array([metric.score(float(np.mean(one.losses))) for one in results.values()])


def areas(results: Mapping[int, Result]) -> dict[int, float]:
    """Return the area under the ROC curve on each split that has one."""
    return {split: one.auc for split, one in results.items() if one.auc is not None}


def area_interval(first: Mapping[int, Result], second: Mapping[int, Result]) -> Interval:
    """Return the area of one row minus that of another, for test parts that differ by split."""
    one, other = areas(first), areas(second)
    shared = [split for split in one if split in other]
    if not shared:
        return Interval(math.nan, math.nan, math.nan)
    differences = np.array([one[split] - other[split] for split in shared])
    return _interval(differences, _ratio({split: first[split] for split in shared}), [])


def score_interval(
    results: Mapping[int, Result], metric: Metric, *, has_fixed_test: bool
) -> Interval:
    """Return the mean score of a row over its splits."""
    influences = _influences(results, metric)
    found = _interval(scores(results, metric), _ratio(results), influences, has_fixed_test)
    return Interval(found.mean, *np.clip(found[1:], *metric.range).tolist())


def paired_interval(
    first: Mapping[int, Result],
    second: Mapping[int, Result],
    metric: Metric,
    *,
    has_fixed_test: bool,
) -> Interval:
    """Return the score of one row minus that of another, over the splits that both have."""
    shared = [split for split in first if split in second]
    if not shared:
        return Interval(math.nan, math.nan, math.nan)
    one, other = ({split: rows[split] for split in shared} for rows in (first, second))
    pairs = zip(_influences(one, metric), _influences(other, metric), strict=True)
    influences = [own - beside for own, beside in pairs]
    values = scores(one, metric) - scores(other, metric)
    found = _interval(values, _ratio(one), influences, has_fixed_test)
    if not has_fixed_test:
        tested = [row.test or len(row.losses) for row in one.values()]
        most = min(sum(tested), max(row.train for row in one.values()) + max(tested))
        return Interval(found.mean, *extended(found.low, found.high, float(most < 2 * FEWEST)))
    if len(influences[0]) < 2 or math.isnan(found.low):
        return found
    own, beside = (np.mean([row.losses for row in rows.values()], axis=0) for rows in (one, other))
    d = own - beside
    if metric.is_loss:  # as of `rmse_difference`
        half = t_quantile(len(d)) * math.sqrt(variance_of_difference(own, beside) / len(d))
        p = float(len(d) < FEWEST or abs(d.mean()) <= half)
    else:
        p = exact_p(int((d > 0).sum()), int((d < 0).sum()))
    return Interval(found.mean, *extended(found.low, found.high, p))


def _interval(
    values: NDArray[np.float64], ratio: float, influences: Sequence[NDArray[np.float64]],
    has_fixed_test: bool = False,
) -> Interval:  # fmt: skip
    """Return the mean of some splits; NaN bounds if nothing tells how much they vary.

    Args:
        values: Of the splits ``(J,)``.
        ratio: Number of test examples over that of training examples.
        influences: Of the test examples of each split ``(N,)``; none if they are unknown.
        has_fixed_test: The test examples are those of every split.
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
            spread = max(spread, float(np.mean([_variance(own) for own in influences or [[]]])))
        half = t_quantile(count) * math.sqrt((1 / count + ratio) * spread)
    half = half or (math.nan if mean else 0.0)
    return Interval(mean, mean - half, mean + half)


def _variance(values: Any) -> float:
    """Return the variance of a mean; 0 of fewer than two values."""
    return float(np.var(values, ddof=1)) / len(values) if len(values) > 1 else 0.0


def _ratio(results: Mapping[int, Result]) -> float:
    sizes = [(one.test or len(one.losses), one.train) for one in results.values()]
    return float(np.mean([test / train for test, train in sizes]))


def _influences(results: Mapping[int, Result], metric: Metric) -> list[NDArray[np.float64]]:
    """Return each test example's influence on the score of each split ``(N,)``."""
    losses = [np.asarray(one.losses, dtype=np.float64) for one in results.values()]
    return [metric.slope(float(own.mean())) * (own - own.mean()) for own in losses]
