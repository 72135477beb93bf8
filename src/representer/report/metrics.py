"""Classification metrics: accuracy with its interval, calibration, scores per class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import MissingExtraError

BINS = 15  # of the expected calibration error, as in the literature
DRAWS = 2000  # of test sets; the quantile is then known to a few hundredths of itself
Z95 = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_interval(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion; ``(0, 1)`` for no trials."""
    if trials == 0:
        return 0.0, 1.0
    p, zz = successes / trials, z * z
    center = (p + zz / (2 * trials)) / (1 + zz / trials)
    half = z * math.sqrt(p * (1 - p) / trials + zz / (4 * trials**2)) / (1 + zz / trials)
    return max(0.0, center - half), min(1.0, center + half)


def paired_difference(
    better: NDArray[np.bool_], worse: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Return the difference of two models' accuracies, with a 95 % interval.

    Both classified the same documents, so only those count that just one got right.

    Returns:
        The difference of the accuracies, its lower and its upper bound.
    """
    n = len(better)
    gains, losses = int((better & ~worse).sum()), int((worse & ~better).sum())
    difference = (gains - losses) / n
    half = Z95 * math.sqrt(gains + losses - (gains - losses) ** 2 / n) / n
    return difference, difference - half, difference + half


def perplexity_difference(
    better: NDArray[np.float64], worse: NDArray[np.float64], lines: NDArray[np.int64]
) -> tuple[float, float, float]:
    """Return the difference of two models' perplexities, with a 95 % interval.

    Both predicted the same tokens. Those of one line may be alike, so that lines are the
    independent units, unless there is only one; the interval is that of the mean difference of
    log-probabilities.

    Args:
        better: Log-probability of each token under the first ``(N,)``, in nats.
        worse: Under the second.
        lines: The line of each token.

    Returns:
        The difference of the perplexities, its lower and its upper bound.
    """
    mean, low, high = mean_over_lines(worse - better, lines)
    perplexity = math.exp(-float(worse.mean()))
    return (
        perplexity * math.expm1(mean),
        perplexity * math.expm1(low),
        perplexity * math.expm1(high),
    )


def perplexity_interval(logs: NDArray[np.float64], lines: NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95 % interval of a perplexity, see `perplexity_difference`."""
    _, low, high = mean_over_lines(-logs, lines)
    return math.exp(low), math.exp(min(high, 700))


def mean_over_lines(
    losses: NDArray[np.float64], lines: NDArray[np.int64]
) -> tuple[float, float, float]:
    """Return the mean of losses with its 95 % interval, from the sums over independent lines."""
    mean, n = float(losses.mean()), len(losses)
    units = lines if len(np.unique(lines)) > 1 else np.arange(n)
    rests = np.bincount(units, weights=losses - mean)[np.bincount(units) > 0]
    spread = math.sqrt(float(rests @ rests) * len(rests) / max(1, len(rests) - 1)) / n
    return mean, mean - Z95 * spread, mean + Z95 * spread


def calibration(right: NDArray[np.bool_], confidences: NDArray[np.floating]) -> dict[str, Any]:
    """Return the expected calibration error, and what a reliability plot shows.

    Predictions are binned by their confidence in `BINS` bins of equal width. The error is the mean
    difference between accuracy and mean confidence of a bin, weighted by the predictions in it.

    Args:
        right: Whether each prediction is right ``(N,)``.
        confidences: Probability of each predicted class ``(N,)``.

    Returns:
        ``error``, ``binning`` in words, and ``bins``: ``confidence``, ``accuracy`` and ``count`` of
        each bin that has predictions.

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

    Args:
        bins: As of `calibration`.
    """
    counts, confidences = (
        np.array([row[name] for row in bins]) for name in ("count", "confidence")
    )
    drawn = np.random.default_rng(0).binomial(counts, confidences, size=(DRAWS, len(bins)))
    errors = np.abs(drawn - counts * confidences).sum(axis=1) / counts.sum()
    return float(np.quantile(errors, 0.95))


def classification_metrics(
    truth: NDArray[np.int64], probabilities: NDArray[np.floating], names: Sequence[str]
) -> dict[str, Any]:
    """Return the metrics of a classification, ready to be written as JSON.

    Args:
        truth: True classes ``(N,)``.
        probabilities: ``(N, C)``, rows summing to one.
        names: The C class names.

    Returns:
        ``count``, ``accuracy``, ``accuracy_interval`` (95 %, Wilson), ``loss`` (mean negative log
        probability of the true class, in nats), ``calibration`` (see above), ``macro_f1``,
        ``per_class`` (precision, recall, f1, support) and ``confusion`` (rows are true classes).
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
    present = [c["f1"] for c in per_class if c["support"]]
    return {
        "count": len(truth),
        "accuracy": right / len(truth),
        "accuracy_interval": list(wilson_interval(right, len(truth))),
        "loss": float(-np.log(chosen).mean()),
        "calibration": calibration(predicted == truth, probabilities.max(axis=1)),
        "macro_f1": float(np.mean(present)),
        "per_class": per_class,
        "confusion": confusion_matrix(truth, predicted, labels=classes).tolist(),
    }


RESAMPLES = 2000
LEVELS = (0.5, 0.8, 0.9, 0.95)
Z = {0.5: 0.67449, 0.8: 1.28155, 0.9: 1.64485, 0.95: 1.95996}  # two-sided normal quantiles
_CHUNK = 4_000_000  # numbers drawn at once


def regression_metrics(
    truth: NDArray[np.float64], predictions: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the metrics of predictions, ready to be written as JSON.

    Args:
        truth: ``(N,)``, at least one value.
        predictions: ``(N,)``.

    Returns:
        ``count``, ``rmse``, ``rmse_interval`` (95 %, from resampled examples), ``mae`` and ``r2``
        (None if all true values are equal).
    """
    squares = (predictions - truth) ** 2
    spread = float(((truth - truth.mean()) ** 2).sum())
    means = _resampled(squares[:, None])[:, 0]
    low, high = np.quantile(np.sqrt(means), (0.025, 0.975))
    return {
        "count": len(truth),
        "rmse": float(squares.mean() ** 0.5),
        "rmse_interval": [float(low), float(high)],
        "mae": float(np.abs(predictions - truth).mean()),
        "r2": 1 - float(squares.sum()) / spread if spread > 0 else None,
    }


def rmse_difference(
    truth: NDArray[np.float64], model: NDArray[np.float64], baseline: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the RMSE of a model minus that of a baseline, with a 95 % interval.

    Both predicted the same examples, which are resampled in pairs. Below 0 the model is better.

    Args:
        truth: True values ``(N,)``.
        model: Predictions ``(N,)``.
        baseline: Predictions ``(N,)``.
    """
    squares = np.stack([(model - truth) ** 2, (baseline - truth) ** 2], axis=1)
    first, second = squares.mean(0) ** 0.5
    roots = np.sqrt(_resampled(squares))
    low, high = np.quantile(roots[:, 0] - roots[:, 1], (0.025, 0.975))
    return float(first - second), float(low), float(high)


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


def _resampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means ``(RESAMPLES, C)`` of examples drawn with replacement."""
    rng, count = np.random.default_rng(0), len(values)
    size = max(1, _CHUNK // count)
    means = [
        values[rng.integers(count, size=(min(size, RESAMPLES - start), count))].mean(1)
        for start in range(0, RESAMPLES, size)
    ]
    return np.concatenate(means)
