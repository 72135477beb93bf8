"""Classification metrics: accuracy with its interval, calibration, scores per class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import MissingExtraError

BINS = 15  # of the expected calibration error, as in the literature
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

    Args:
        better: Whether the first is right, per document.
        worse: Whether the second is.

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
    mean, low, high = _mean_over_lines(worse - better, lines)
    perplexity = math.exp(-float(worse.mean()))
    return (
        perplexity * math.expm1(mean),
        perplexity * math.expm1(low),
        perplexity * math.expm1(high),
    )


def perplexity_interval(logs: NDArray[np.float64], lines: NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95 % interval of a perplexity, see `perplexity_difference`.

    Args:
        logs: Log-probability of each token ``(N,)``, in nats.
        lines: The line of each token.
    """
    _, low, high = _mean_over_lines(-logs, lines)
    return math.exp(low), math.exp(min(high, 700))


def _mean_over_lines(
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
