r"""Scores over repeated splits, and paired differences, with 95 % intervals.

Test parts that differ from split to split. The training parts overlap, so the splits are not
independent, and s²/J is far too small a variance of the mean over J splits. Nadeau and Bengio's
correction takes

    (1/J + n_test/n_train) s²

and Student's t with J − 1 degrees of freedom. Examples are not resampled: those of one subject
depend on each other, and the differences of the splits contain both the choice of the test examples
and that of the training examples.

One test part for all splits. The splits differ in seed and validation part only, so s²/J lacks the
choice of the test examples. Their variance is added: that of the mean over the splits of each
example's influence on the score, over the number of examples.

References:
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer.report.metrics import Z95
from representer.tasks.comparison import Result

LEVEL = 0.975


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
    return _interval(differences, _ratio({split: first[split] for split in shared}), None)


def score_interval(
    results: Mapping[int, Result], metric: Metric, *, has_fixed_test: bool
) -> Interval:
    """Return the mean score of a row over its splits."""
    influences = _influences(results, metric) if has_fixed_test else None
    found = _interval(scores(results, metric), _ratio(results), influences)
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
    influences = None
    if has_fixed_test:
        influences = _influences(one, metric) - _influences(other, metric)
    return _interval(scores(one, metric) - scores(other, metric), _ratio(one), influences)


def _interval(
    values: NDArray[np.float64], ratio: float, influences: NDArray[np.float64] | None
) -> Interval:
    """Return the mean of some splits.

    Args:
        values: Of the splits ``(J,)``.
        ratio: Number of test examples over that of training examples.
        influences: Of the test examples that all splits share ``(N,)``, or None.
    """
    from scipy.stats import t

    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    quantile = float(t.ppf(LEVEL, count - 1))
    spread = float(values.var(ddof=1))
    if influences is None:
        half = quantile * math.sqrt((1 / count + ratio) * spread)
    else:
        of_examples = float(influences.var(ddof=1)) / len(influences) if len(influences) > 1 else 0
        half = math.sqrt(quantile**2 * spread / count + Z95**2 * of_examples)
    return Interval(mean, mean - half, mean + half)


def _ratio(results: Mapping[int, Result]) -> float:
    sizes = [(one.test or len(one.losses), one.train) for one in results.values()]
    return float(np.mean([test / train for test, train in sizes]))


def _influences(results: Mapping[int, Result], metric: Metric) -> NDArray[np.float64]:
    """Return each test example's influence on the score, the mean over all splits ``(N,)``."""
    losses = np.array([one.losses for one in results.values()])
    means = losses.mean(axis=1, keepdims=True)
    slopes = np.array([metric.slope(float(mean)) for mean in means[:, 0]])
    return (slopes[:, None] * (losses - means)).mean(axis=0)
