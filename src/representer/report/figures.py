"""Figures of the reports: comparisons, learning curves, parity plots and subjects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from representer.report.canvas import (
    BASELINE,
    INK,
    MODEL,
    VALID,
    canvas,
    canvases,
    plain,
    svg,
)


@dataclass(frozen=True)
class Result:
    """One row of the comparison: a name, an accuracy and its interval, as fractions."""

    name: str
    accuracy: float
    low: float
    high: float
    is_model: bool


def comparison(results: Sequence[Result], nouns: str) -> str:
    """Plot accuracies with 95 % intervals, one row each, the first on top."""
    figure, axes = canvas(7.2, 0.55 + 0.42 * len(results))
    rows = range(len(results) - 1, -1, -1)
    for row, result in zip(rows, results, strict=True):
        color = MODEL if result.is_model else BASELINE
        low, high = 100 * result.low, 100 * result.high
        axes.plot([low, high], [row, row], color=color, linewidth=3, solid_capstyle="round")
        axes.plot([100 * result.accuracy], [row], "o", color=color, markersize=8)
    axes.set_yticks(list(rows), [plain(r.name) for r in results])
    axes.set_ylim(-0.6, len(results) - 0.4)
    axes.set_xlabel(f"accuracy on the test {nouns} (%), with 95 % interval")
    axes.grid(axis="x", color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.tick_params(axis="y", length=0)
    return svg(figure, "Accuracy of the model and of the baselines")


def learning_curves(
    losses: Mapping[str, Sequence[tuple[float, float]]],
    accuracies: Mapping[str, Sequence[tuple[float, float]]],
    best_epoch: float | None,
    noun: str,
) -> str:
    """Plot loss and accuracy against the epoch.

    Args:
        losses: Curves by name, points ``(epoch, nats per object)``.
        accuracies: Curves by name, points ``(epoch, fraction)``.
        best_epoch: Epoch of the selected weights, marked by a line.
        noun: One object: "document".
    """
    figure, (left, right) = canvases(9.0, 3.0, 2)
    colors = {"training": MODEL, "validation": VALID}
    for name, points in losses.items():
        left.plot(*zip(*points, strict=True), "-o", color=colors[name], markersize=3, label=name)
    for name, points in accuracies.items():
        epochs, shares = zip(*points, strict=True)
        percent = [100 * s for s in shares]
        right.plot(epochs, percent, "-o", color=colors[name], markersize=3, label=name)
    left.set_ylabel(f"loss (nats per {noun})")
    right.set_ylabel("accuracy (%)")
    for axes in (left, right):
        axes.set_xlabel("epoch (passes over the training data)")
        axes.locator_params(axis="x", integer=True)
        axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
        if best_epoch is not None:
            axes.axvline(
                best_epoch, color=INK, linestyle=":", linewidth=1, label="selected weights"
            )
    left.legend(frameon=False, labelcolor=INK, loc="upper right")
    right.legend(frameon=False, labelcolor=INK, loc="lower right")
    return svg(figure, "Learning curves: loss and accuracy per epoch")


def perplexity_curves(history: Sequence[Mapping[str, float]]) -> str:
    """Plot training and validation perplexity against the epoch, on a log scale.

    Args:
        history: Rows of metrics.jsonl, with ``train_loss`` and ``valid_loss`` in nats per token.
    """
    figure, axes = canvas(7.2, 3.0)
    colors = {"train_loss": MODEL, "valid_loss": VALID}
    for name, color in colors.items():
        points = [(row["epoch"], math.exp(row[name])) for row in history if row.get(name)]
        label = "training, with dropout" if name == "train_loss" else "validation"
        if points:
            axes.plot(*zip(*points, strict=True), "-o", color=color, markersize=3, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", colors=INK)
    axes.set_xlabel("epoch (passes over the training text)")
    axes.set_ylabel("perplexity per token")
    axes.locator_params(axis="x", integer=True)
    axes.grid(which="both", color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False, labelcolor=INK, loc="upper right")
    return svg(figure, "Learning curves: perplexity per epoch")


def parity(points: Sequence[Sequence[float]], name: str) -> str:
    """Plot predicted against true values, with error bars of one standard deviation."""
    figure, axes = canvas(4.8, 4.4)
    truth, predictions, deviations = zip(*points, strict=True)
    axes.errorbar(
        truth, predictions, yerr=deviations, fmt="o", color=MODEL, ecolor=BASELINE, alpha=0.7,
        markersize=3, elinewidth=0.7,
    )  # fmt: skip
    ends = min(*truth, *predictions), max(*truth, *predictions)
    axes.plot(ends, ends, color=INK, linestyle=":", linewidth=1)
    axes.set_xlabel(plain(f"true {name}"))
    axes.set_ylabel(plain(f"predicted {name}"))
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    return svg(figure, "Predicted against true values")


def reliability(bins: Sequence[Mapping[str, float]]) -> str:
    """Plot the accuracy of each bin of confidences, with areas proportional to its predictions.

    Args:
        bins: ``confidence``, ``accuracy`` and ``count`` of each.
    """
    figure, axes = canvas(4.8, 4.4)
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    confidence, accuracy = (
        [100 * row[name] for row in bins] for name in ("confidence", "accuracy")
    )
    total = sum(row["count"] for row in bins)
    sizes = [12 + 500 * row["count"] / total for row in bins]
    axes.plot(confidence, accuracy, color=MODEL, linewidth=1)
    axes.scatter(confidence, accuracy, s=sizes, color=MODEL, alpha=0.7, linewidth=0)
    axes.set(xlim=(0, 102), ylim=(0, 102))
    axes.set_xlabel("confidence: probability of the predicted class (%)")
    axes.set_ylabel("accuracy (%)")
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    return svg(figure, "Accuracy by confidence")


def loss_curves(losses: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Plot losses against the epoch, on a log scale.

    Args:
        losses: Curves by name, ``"training"`` and ``"validation"``, points ``(epoch, loss)``.
    """
    figure, axes = canvas(7.2, 3.0)
    for name, points in losses.items():
        if points:
            color = {"training": MODEL, "validation": VALID}[name]
            axes.plot(*zip(*points, strict=True), "-o", color=color, markersize=3, label=name)
    axes.set_yscale("log")
    axes.tick_params(which="both", colors=INK)
    axes.set_xlabel("epoch (passes over the training data)")
    axes.set_ylabel("loss")
    axes.locator_params(axis="x", integer=True)
    axes.grid(which="both", color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False, labelcolor=INK, loc="upper right")
    return svg(figure, "Learning curves: loss per epoch")


def subjects(
    model: Mapping[str, float], baseline: Mapping[str, float] | None, chance: float
) -> str:
    """Plot the accuracies of the model and of the baseline on each subject, as in L19 Fig. 4.

    Args:
        model: Accuracy by subject, as a fraction.
        baseline: Accuracy of the baseline on the same subjects.
        chance: Accuracy of always predicting the most common class, drawn as a line.
    """
    figure, axes = canvas(min(14.0, 2.5 + 0.35 * len(model)), 3.2)
    wide = 0.4 if baseline else 0.7
    places = list(range(len(model)))
    shares = [100 * share for share in model.values()]
    axes.bar([p - wide / 2 for p in places] if baseline else places, shares, wide, color=MODEL,
             label="model")  # fmt: skip
    if baseline:
        shares = [100 * baseline[name] for name in model]
        axes.bar([p + wide / 2 for p in places], shares, wide, color=BASELINE, label="baseline")
    axes.axhline(100 * chance, color=INK, linestyle=":", linewidth=1, label="most common class")
    is_crowded = len(model) > 8 or len(" ".join(model)) > 40
    axes.set_xticks(places, [plain(name) for name in model], rotation=90 if is_crowded else 0)
    axes.set_ylim(0, 100)
    axes.set_ylabel("accuracy (%)")
    axes.set_xlabel("test subject")
    axes.legend(frameon=False, labelcolor=INK, ncols=3, loc="lower right",
                bbox_to_anchor=(1, 1))  # fmt: skip
    return svg(figure, "Accuracy on each subject")
