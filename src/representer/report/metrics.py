"""Metrics of classes, numbers and tokens with their intervals, paired differences, and wording."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from markupsafe import Markup


LARGEST_MATRIX = 100  # classes whose confusion matrix is written
LISTED = 12  # confusions
BINS = 15  # of the expected calibration error, as in the literature
DRAWS = 2000  # of test sets; the quantile is then known to a few hundredths of itself
Z95 = 1.959963984540054  # the normal distribution's 97.5 % point
ALIKE = 2  # groups that are taken to have rows all alike, as few may not show it, measured
FEWEST = 6  # objects with which an exact paired test can reject at 5 %: 2 / 2**6 is 0.03


def effective_count(groups: NDArray[Any], power: int = 1) -> float:
    """Return Kish's effective size of objects in groups ``(N,)`` of equal ones, as copies are.

    With a `power` of 2, it is that for the variance over groups, Satterthwaite's: a sum of squares,
    which vary with the fourth power of the sizes.
    """
    sizes = np.unique(groups, return_counts=True)[1].astype(np.float64) ** power
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def sums_of_groups(values: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum over each group ``(G,)``, scaled so that their mean is that of all rows."""
    codes = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(codes, weights=values).astype(np.float64)
    return sums * (len(sums) / len(values))


def wilson_interval(successes: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion; ``(0, 1)`` for no trials."""
    if trials == 0:
        return 0.0, 1.0
    p, zz = successes / trials, z * z
    center = (p + zz / (2 * trials)) / (1 + zz / trials)
    half = z * math.sqrt(p * (1 - p) / trials + zz / (4 * trials**2)) / (1 + zz / trials)
    return max(0.0, center - half), min(1.0, center + half)


def accuracy_interval(
    right: NDArray[np.bool_], independent: float, groups: NDArray[Any] | None = None
) -> tuple[tuple[float, float], float]:
    """Return the 95 % interval of an accuracy, and the number of objects that it rests on.

    It is Wilson's interval. The rows of a group may be right or wrong together, so that the number
    is that of independent objects whose accuracy would vary as much as this one does over groups
    and `ALIKE` more, and the quantile is that of Student's t with Satterthwaite's degrees of
    freedom. If all are right, or all wrong, groups count. ``independent`` is the number of
    different objects.

    References:
        Korn and Graubard, Confidence intervals for proportions with small expected number of
        positive counts estimated from survey data, Survey Methodology 24, 1998.
    """
    accuracy, z = float(right.mean()), Z95
    if groups is not None:
        codes, count = np.unique(groups, return_inverse=True)[1], effective_count(groups)
        z = t_quantile(effective_count(groups, 2))
        half = mean_over_lines(right.astype(float), codes)[2] - accuracy
        share = (half / z) ** 2 / (accuracy * (1 - accuracy)) if half and count > 1 else 1 / count
        seen = float(codes.max() + 1)
        share = (seen * share + ALIKE / count) / (seen + ALIKE)
        independent = min(independent, 1 / share)
    return wilson_interval(accuracy * independent, independent, z), independent


def paired_difference(
    better: NDArray[np.bool_], worse: NDArray[np.bool_], groups: NDArray[Any] | None = None
) -> tuple[float, float, float]:
    """Return the difference of two models' accuracies, with a 95 % interval.

    Both classified the same documents, so only those count that just one got right. The interval
    is Tango's score interval. It is extended to 0 unless McNemar's exact test rejects that the
    models are equally good, so that it excludes 0 exactly if the test does.

    The documents of a group ``(N,)`` may be alike. With groups, the interval contains that of the
    mean over groups by Student's t, and 0 unless the signed-rank test over groups rejects, too, and
    there are at least `FEWEST` of them. Lower and upper bound come after the difference.

    References:
        Tango, Equivalence test and confidence interval for the difference in proportions for the
        paired-sample design, Statistics in Medicine 17, 1998.
    """
    from scipy.optimize import brentq

    n = len(better)
    gains, losses = int((better & ~worse).sum()), int((worse & ~better).sum())
    difference = (gains - losses) / n

    def excess(delta: float) -> float:
        """Return the squared deviation from a difference minus what is within its interval."""
        b = (2 * n - gains + losses) * delta - gains - losses
        root = math.sqrt(max(0.0, b * b + 8 * n * losses * delta * (1 - delta)))
        variance = n * ((root - b) / (2 * n) + delta * (1 - delta))
        return (gains - losses - n * delta) ** 2 - Z95**2 * variance

    inside = difference * (1 - 1e-9)  # at 1, and at 0 without gains and losses, the variance is 0
    low, high = (
        cast("float", brentq(excess, inside + 1e-10 * bound, bound)) for bound in (-1.0, 1.0)
    )
    low, high = extended(low, high, exact_p(gains, losses))
    if groups is not None:
        d = better.astype(float) - worse
        sums, codes = sums_of_groups(d, groups), np.unique(groups, return_inverse=True)[1]
        bounds = mean_over_lines(d, codes)[1:] if len(sums) > 1 else (-1.0, 1.0)
        p = _p_value(sums[sums != 0]) if len(sums) >= FEWEST and sums.any() else 1.0
        low, high = extended(max(-1.0, min(low, bounds[0])), min(1.0, max(high, bounds[1])), p)
    return difference, low, high


def exact_p(gains: int, losses: int) -> float:
    """Return the two-sided p of McNemar's exact test, of objects that one model alone got right."""
    from scipy.stats import binom

    return min(1.0, 2 * float(binom.cdf(min(gains, losses), gains + losses, 0.5)))


def extended(low: float, high: float, p: float) -> tuple[float, float]:
    """Return an interval, extended to 0 if a test of no difference does not reject at 5 %."""
    return (low, high) if p <= 0.05 else (min(low, 0.0), max(high, 0.0))


def perplexity_difference(
    better: NDArray[np.float64], worse: NDArray[np.float64], lines: NDArray[np.int64]
) -> tuple[float, float, float]:
    """Return the difference of two models' perplexities, with a 95 % interval.

    Both predicted the same tokens. Those of one line may be alike, so that lines are the
    independent units, unless there is only one; the interval is that of the mean difference of
    log-probabilities, and contains 0 for fewer than `FEWEST` units. Tokens have their
    log-probabilities in nats under both models, and their line; lower and upper bound come after
    the difference.
    """
    mean, low, high = mean_over_lines(worse - better, lines)
    perplexity = math.exp(-float(worse.mean()))
    difference, low, high = (perplexity * math.expm1(bound) for bound in (mean, low, high))
    return difference, *extended(low, high, float(1 < len(np.unique(lines)) < FEWEST))


def perplexity_interval(logs: NDArray[np.float64], lines: NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95 % interval of a perplexity, see `perplexity_difference`."""
    _, low, high = mean_over_lines(-logs, lines)
    return math.exp(low), math.exp(min(high, 700))


def mean_over_lines(
    losses: NDArray[np.float64], lines: NDArray[np.int64]
) -> tuple[float, float, float]:
    """Return the mean of losses with its 95 % interval, by the jackknife over independent lines."""
    mean, n = float(losses.mean()), len(losses)
    units = lines if len(np.unique(lines)) > 1 else np.arange(n)
    sizes = np.bincount(units)
    rests = (np.bincount(units, weights=losses - mean) / np.maximum(1, n - sizes))[sizes > 0]
    spread = math.sqrt(float(rests @ rests) * (1 - 1 / len(rests)))
    half = t_quantile(effective_count(units, 2)) * spread
    return mean, mean - half, mean + half


def t_quantile(count: float) -> float:
    """Return the 97.5 % point of Student's t for the mean of so many independent numbers."""
    from scipy.stats import t

    return float(t.ppf(0.975, max(1, count - 1)))


def calibration(right: NDArray[np.bool_], confidences: NDArray[np.floating]) -> dict[str, Any]:
    """Return the expected calibration error, and what a reliability plot shows.

    Predictions are binned by their confidence in `BINS` bins of equal width. The error is the mean
    difference between accuracy and mean confidence of a bin, weighted by the predictions in it.
    ``error`` comes with ``binning`` in words and ``bins``: ``confidence``, ``accuracy`` and
    ``count`` of each bin that has predictions.

    References:
        Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017.
    """
    numbers = np.minimum((confidences * BINS).astype(int), BINS - 1)
    bins = [
        {
            "confidence": float(confidences[inside].mean()),
            "accuracy": float(right[inside].mean()),
            "count": int(inside.sum()),
        }
        for inside in (numbers == k for k in np.unique(numbers))
    ]
    gaps = [row["count"] * abs(row["accuracy"] - row["confidence"]) for row in bins]
    binning = f"{BINS} bins of equal width"
    return {"error": sum(gaps) / len(right), "binning": binning, "bins": bins}


def calibration_error_by_chance(bins: Sequence[Mapping[str, Any]]) -> float:
    """Return the calibration error that exact probabilities exceed in one of twenty test sets.

    The classes of the predictions in each bin are drawn with the mean confidence of the bin.
    """
    counts, confidences = (
        np.array([row[name] for row in bins]) for name in ("count", "confidence")
    )
    drawn = np.random.default_rng(0).binomial(counts, confidences, size=(DRAWS, len(bins)))
    errors = np.abs(drawn - counts * confidences).sum(axis=1) / counts.sum()
    return float(np.quantile(errors, 0.95))


def classification_metrics(
    truth: NDArray[np.int64], probabilities: NDArray[np.floating], names: Sequence[str],
    independent: float | None = None, groups: NDArray[Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the metrics of a classification, ready to be written as JSON.

    They are ``count``, ``independent`` (by default N, see `effective_count`), ``accuracy``,
    ``accuracy_interval`` (95 %, see above), ``loss`` (mean negative log probability of the true
    class, in nats), ``calibration`` (see above), ``macro_f1`` (mean over the classes that are true
    or predicted somewhere, as in scikit-learn), ``per_class`` (precision, recall, f1, support),
    ``confusions`` (the most frequent) and, up to `LARGEST_MATRIX` classes, ``confusion`` (rows are
    true classes).
    """
    try:
        from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
    except ImportError as error:
        raise MissingExtraError("scores per class", "scikit-learn", "train") from error
    classes = list(range(len(names)))
    predicted = probabilities.argmax(axis=1)
    right = int((predicted == truth).sum())
    chosen = np.clip(probabilities[np.arange(len(truth)), truth], 1e-12, None)
    score: Any = precision_recall_fscore_support
    scores = score(truth, predicted, labels=classes, zero_division=0)
    per_class = [
        {"label": n, "precision": float(p), "recall": float(r), "f1": float(f), "support": int(s)}
        for n, p, r, f, s in zip(names, *scores, strict=True)
    ]
    seen = {*predicted.tolist()}
    present = [c["f1"] for k, c in enumerate(per_class) if c["support"] or k in seen]
    wrong = predicted != truth
    confusions = Counter(zip(truth[wrong].tolist(), predicted[wrong].tolist(), strict=True))
    matrix = {}
    if len(names) <= LARGEST_MATRIX:  # 2,600 classes would have seven million cells
        matrix["confusion"] = confusion_matrix(truth, predicted, labels=classes).tolist()
    interval, independent = accuracy_interval(~wrong, independent or float(len(truth)), groups)
    return {
        "count": len(truth),
        "independent": independent,
        "accuracy": right / len(truth),
        "accuracy_interval": list(interval),
        "loss": float(-np.log(chosen).mean()),
        "calibration": calibration(predicted == truth, probabilities.max(axis=1)),
        "macro_f1": float(np.mean(present)),
        "per_class": per_class,
        "confusions": _most_frequent(confusions, per_class),
        **matrix,
    }


def _most_frequent(
    confusions: Counter[tuple[int, int]], per_class: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the most frequent pairs of a true and another predicted class, with their counts."""
    return [
        {
            "truth": per_class[i]["label"],
            "predicted": per_class[j]["label"],
            "count": count,
            "support": per_class[i]["support"],
        }
        for (i, j), count in sorted(confusions.items(), key=lambda one: (-one[1], one[0]))[:LISTED]
    ]


HEAVY = 8.0  # variance of the squares of Student's t with 5 degrees of freedom, over their mean²
UNSEEN, UNSEEN_ALONE = 2.25, 2.75  # errors as large as the largest, of two models and one, measured
SKEWED = 2  # how much more skewed the squares are than few of them show, measured
LEVELS = (0.5, 0.8, 0.9, 0.95)
Z = {0.5: 0.67449, 0.8: 1.28155, 0.9: 1.64485, 0.95: 1.95996}  # two-sided normal quantiles


def regression_metrics(
    truth: NDArray[np.float64], predictions: NDArray[np.float64], independent: float | None = None,
    groups: NDArray[Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the metrics of predictions, ready to be written as JSON.

    Args:
        truth: ``(N,)``, at least one value.
        predictions: ``(N,)``.
        independent: How many independent objects there are, see `effective_count`; by default N.
        groups: The group of each object ``(N,)``, if those of a group may be alike.

    Returns:
        ``count``, ``independent``, ``rmse``, ``rmse_interval`` (95 %), ``mae`` and ``r2`` (None if
        all true values are equal).

    The interval is that of a chi-squared variable, as the mean square of normal errors is, with
    fewer degrees of freedom the more the squares vary. A few errors do not show how much that is:
    until many do, they count as those of Student's t with 5 degrees of freedom, skewed squares
    vary by the second-order term of the Edgeworth expansion more, and the upper bound allows for
    unseen errors as large as the largest. With groups, the mean varies at least as much as over
    them.
    """
    from scipy.stats import chi2

    squares = (predictions - truth) ** 2
    spread = float(((truth - truth.mean()) ** 2).sum())
    mean, count = float(squares.mean()), len(truth)
    independent = independent or float(count)
    varied = float(squares.var(ddof=1)) / mean**2 if count > 1 and mean else 0.0
    varied *= 1 + 2 * skewness(squares) ** 2 / count
    prior = 5 * math.sqrt(independent)  # objects of assumed errors, so that 6 % are kept, measured
    varied = (independent * varied + prior * HEAVY) / (independent + prior)
    varied, largest = max(2.0, varied) / independent, float(squares.max()) / independent
    if groups is not None and mean:
        sums = sums_of_groups(squares - mean, groups)
        over = float(sums.var(ddof=1)) / mean**2 / len(sums) if len(sums) > 1 else HEAVY
        over *= (1 + 2 * skewness(sums) ** 2 / len(sums)) * (t_quantile(len(sums)) / Z95) ** 2
        varied = max(varied, min(over, HEAVY))
        largest = max(largest, float(sums.max()) / len(sums))
    freedom = 2 / varied
    low, high = (freedom * mean / chi2.ppf(q, freedom) for q in (0.975, 0.025))
    bounds = math.sqrt(low), math.sqrt(high + UNSEEN_ALONE * largest)
    return {
        "count": count,
        "independent": independent,
        "rmse": mean**0.5,
        "rmse_interval": list(bounds),
        "mae": float(np.abs(predictions - truth).mean()),
        "r2": 1 - float(squares.sum()) / spread if spread > 0 else None,
    }


def rmse_difference(
    truth: NDArray[np.float64], model: NDArray[np.float64], baseline: NDArray[np.float64],
    groups: NDArray[Any] | None = None,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the RMSE of a model minus that of a baseline, with a 95 % interval.

    Both predicted the same examples. The interval is that of `difference_of_squares` over the sum
    of both RMSE; it contains 0 for fewer than `FEWEST` examples or groups of them.

    Args:
        truth: True values ``(N,)``.
        model: Predictions ``(N,)``.
        baseline: Predictions ``(N,)``.
        groups: The group of each example ``(N,)``, if those of a group may be alike.
    """
    squares = (model - truth) ** 2, (baseline - truth) ** 2
    first, second = (math.sqrt(of_model.mean()) for of_model in squares)
    count = len(truth if groups is None else np.unique(groups))
    total = first + second or 1.0
    low, high = (bound / total for bound in difference_of_squares(*squares, groups))
    return first - second, *extended(low, high, float(count < FEWEST))


def difference_of_squares(
    first: NDArray[np.float64], second: NDArray[np.float64], groups: NDArray[Any] | None = None
) -> tuple[float, float]:
    """Return the 95 % interval of the mean difference of squared errors ``(N,)`` of two models.

    It is Student's t of the paired differences, but a few errors may not show the large ones. So
    the variance is at least that of models with normal errors, whose squares correlate as these;
    the side of the larger errors is wider by the skewness, as in Johnson's modified t; and on each
    side the model that is better there has `UNSEEN` more differences as large as the largest. With
    groups ``(N,)``, it contains the interval of the sums over groups.

    References:
        Johnson, Modified t tests and confidence intervals for asymmetrical populations, Journal of
        the American Statistical Association 73, 1978.
    """
    mean, rows = float(np.mean((first, second))), len(first)
    low, high = 0.0, 0.0
    if groups is not None:
        low, high = difference_of_squares(first, second)
        first, second = (sums_of_groups(squares, groups) for squares in (first, second))
    d, n = first - second, len(first)
    if not d.any():
        return low, high
    center = float(d.mean())
    if n < 2:
        return min(low, center - 2 * mean), max(high, center + 2 * mean)
    covariance = np.cov(first, second)
    varied = np.diag(covariance)
    product = math.sqrt(float(varied.prod()))
    correlation = covariance[0, 1] / product if product else 0.0
    least = np.maximum(varied, 2 * mean**2 * n / rows)
    variance = least.sum() - 2 * correlation * math.sqrt(float(least.prod()))
    error, t = math.sqrt(max(float(d.var(ddof=1)), float(variance)) / n), t_quantile(n)
    wider = SKEWED * skewness(d) * (2 * t**2 + 1) / (6 * math.sqrt(n))
    below, above = (UNSEEN * max(0.0, float(differences.max())) / n for differences in (-d, d))
    bounds = (
        center - (t + max(0.0, -wider)) * error - below,
        center + (t + max(0.0, wider)) * error + above,
    )
    return (min(low, bounds[0]), max(high, bounds[1])) if groups is not None else bounds


def skewness(values: NDArray[np.float64]) -> float:
    """Return the third standardized moment; 0 for equal values."""
    rest = values - values.mean()
    spread = float(rest.std())
    return float(((rest / spread) ** 3).mean()) if spread else 0.0


def likelihood(
    predictions: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> float:
    """Return the mean negative log density of the true values in nats; lower is better."""
    squares = ((predictions - truth) / deviations) ** 2
    return float((np.log(deviations) + squares / 2).mean() + math.log(2 * math.pi) / 2)


def coverage(
    predictions: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> dict[str, float]:
    """Return the fraction of true values in the central intervals of each of LEVELS."""
    sizes = np.abs(predictions - truth) / deviations
    return {str(level): float((sizes <= Z[level]).mean()) for level in LEVELS}


# Numbers as the report shows them.

NARROW = "\u202f"  # a narrow no-break space
MINUS = "−"


def percent(share: float, digits: int = 1) -> str:
    """Return a fraction in percent."""
    return f"{100 * share:.{digits}f}{NARROW}%"


def points(share: float) -> str:
    """Return a difference of two fractions in percentage points, with its sign."""
    return signed(100 * share, 1)


def count(number: int) -> str:
    """Return an integer with its thousands apart."""
    return f"{number:,}".replace(",", NARROW)


def rounded(number: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, and never as a power of ten."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{decimals}f}"


def signed(number: float, decimals: int) -> str:
    """Return a number with its sign and so many decimals; what rounds to zero has no sign."""
    text = f"{number:+.{decimals}f}"
    return text[1:] if not float(text) else text.replace("-", MINUS)


def decimals_of(numbers: Iterable[float]) -> int:
    """Return the decimals with which the largest of some numbers has two significant digits.

    They are at least 2, so that sums of rounded numbers remain recognizable.
    """
    largest = max((abs(number) for number in numbers if number), default=1.0)
    return max(2, 1 - math.floor(math.log10(largest)))


def equation(text: str) -> Markup:
    """Return an equation as HTML, with subscripts for ``c_t`` and ``c_{t−1}``."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"_\{(.*?)\}|_(\w)", r"<sub>\1\2</sub>", str(escape(text))))


def slug(text: str) -> str:
    """Return a heading as the name of an anchor."""
    return re.sub(r"\W+", "-", text.lower()).strip("-")


FILTERS = {function.__name__: function for function in (
    percent, points, count, rounded, signed, equation, slug
)}  # fmt: skip


# Compare two models over subjects with Wilcoxon's signed-rank test.

_DIGITS = 9  # differences by rounding errors are ties
_EXACT = 15  # up to so many subjects, all signs are enumerated, which is exact with ties


def paired_over_subjects(
    model: Mapping[str, float], baseline: Mapping[str, float]
) -> dict[str, Any]:
    """Compare the accuracies of two models subject by subject.

    The windows of a subject are dependent, so the test is over subjects. Subjects without a
    difference are left out of the test.

    Args:
        model: Accuracy of the model by subject.
        baseline: Accuracy of the baseline by subject, for the same subjects.

    Returns:
        ``mean`` difference, its 95 % ``interval`` by Student's t, extended to 0 unless the test
        rejects, numbers of subjects ``better``, ``worse`` and ``equal``, and ``p`` of the two-sided
        test; 1 if no subject differs. The interval of a single subject is all that accuracies
        allow.

    Raises:
        ArgumentError: If the subjects are not the same.
    """
    if model.keys() != baseline.keys() or not model:
        raise ArgumentError(
            "baseline", sorted(baseline), f"the subjects {', '.join(sorted(model))}"
        )
    d = np.asarray([round(model[subject] - baseline[subject], _DIGITS) for subject in model])
    p = _p_value(d[d != 0])
    return {
        "mean": float(d.mean()),
        "interval": list(extended(*_interval(d), p)),
        "better": int((d > 0).sum()),
        "worse": int((d < 0).sum()),
        "equal": int((d == 0).sum()),
        "p": p,
    }


def _interval(d: np.ndarray) -> tuple[float, float]:
    if len(d) < 2:
        return -1.0, 1.0
    half = t_quantile(len(d)) * float(d.std(ddof=1)) / len(d) ** 0.5
    return float(d.mean()) - half, float(d.mean()) + half


def _p_value(d: np.ndarray) -> float:
    from scipy.stats import rankdata, wilcoxon

    if len(d) > _EXACT:
        result: Any = wilcoxon(d, method="asymptotic")
        return float(result.pvalue)
    ranks = (2 * rankdata(np.abs(d))).astype(int)  # ties have half ranks
    ways = np.ones(1)  # to choose signs so that the positive ranks have a sum
    for rank in ranks:
        ways = np.convolve(ways, np.eye(rank + 1)[[0, -1]].sum(axis=0))
    positive = int(ranks[d > 0].sum())
    tail = min(float(ways[: positive + 1].sum()), float(ways[positive:].sum()))
    return min(1.0, 2 * tail / 2 ** len(d))
