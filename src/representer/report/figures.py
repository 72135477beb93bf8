"""Figures of the reports: comparisons, learning curves, parity plots and subjects."""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from textwrap import shorten
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

from representer.errors import MissingExtraError, printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Matplotlib figures as SVG in the colors of the page, drawn for a laptop and for a phone.
#
# Text and axes use ``currentColor``, so figures are readable on light and dark backgrounds.

INK = "#010203"  # placeholder, replaced by the text color of the page
MODEL, BASELINE, VALID = "#3b82c4", "#8a8f98", "#d9822b"
LAPTOP, PHONE = 9.9, 3.55  # inches: the width of the text, where letters keep their size
_FINE = tuple(k / 10 for k in range(10, 100))
P = ParamSpec("P")


class Drawing(NamedTuple):
    """A figure and its title for screen readers."""

    figure: Figure
    title: str


def both_widths(draw: Callable[Concatenate[float, P], Drawing]) -> Callable[P, Markup]:
    """Return the function that draws a figure twice, for a wide and for a narrow screen.

    The page shows one of the two. A single figure would shrink its letters on a phone.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Markup:
        from markupsafe import Markup

        wide, narrow = (svg(*draw(width, *args, **kwargs)) for width in (LAPTOP, PHONE))
        return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(wide, narrow)

    return drawn


def is_narrow(width: float) -> bool:
    """Return True for the width of a phone."""
    return width <= PHONE


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes; sizes in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure, (axes,) = canvases(width, height, 1)
    return figure, axes


def canvases(
    width: float, height: float, count: int, *, is_stacked: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with several pairs of axes, below each other on a phone; sizes in inches.

    A figure is stacked on every screen if it ``is_stacked``.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingExtraError("the figures of the report", "matplotlib", "train") from error
    rows, columns = (count, 1) if is_stacked or is_narrow(width) else (1, count)
    with rc_context({"font.size": 10}):
        layout = ConstrainedLayoutEngine(wspace=0.08, hspace=0.08)
        figure = Figure(figsize=(width, height * rows), layout=layout)
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
    for a in axes:
        a.patch.set_alpha(0)
        a.spines[["top", "right"]].set_visible(False)
        a.spines[["left", "bottom"]].set_color(INK)
        a.tick_params(which="both", colors=INK)
        a.xaxis.label.set_color(INK)
        a.yaxis.label.set_color(INK)
    return figure, axes


def log_ticks(axes: Axes, least: float, most: float) -> None:
    """Give a vertical log scale a few ticks that do not collide, as plain numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(round_numbers(least, most)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def round_numbers(least: float, most: float, count: int = 6) -> list[float]:
    """Return up to count round numbers between two positive ones, evenly spread in ratio."""
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    for digits in (_FINE, (1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [d * 10.0**k for k in decades for d in digits if least <= d * 10.0**k <= most]
        if len(ticks) <= count:
            return [float(f"{tick:.6g}") for tick in ticks]
    return [float(f"{tick:.6g}") for tick in ticks[:: -(-len(ticks) // count)]]


def plain(text: str) -> str:
    """Escape a user's text, such as a column name, for literal display in a figure.

    Matplotlib typesets text between two ``$`` as a formula, and omits labels that begin with an
    underscore from legends.
    """
    text = printable(text).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text  # a zero-width space


def svg(figure: Figure, title: str) -> Markup:
    """Return a figure as SVG for the page, with a title for screen readers.

    The result is `Markup`, which the templates do not escape, since it is created here.
    """
    from markupsafe import Markup
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    figure.patch.set_visible(False)
    # text instead of outlines uses the page's font, can be selected, and is ten times smaller
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        # savefig would lay the figure out twice
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    drawing = buffer.getvalue().replace(INK, "currentColor")
    drawing = drawing[drawing.index("<svg") :]
    digest = hashlib.sha256(drawing.encode()).hexdigest()[:8]  # a page has many figures
    drawing = re.sub(r'( id="|href="#|url\(#)', rf"\1f{digest}-", drawing)
    return Markup(
        drawing.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(title))}"', 1)
    )


def not_drawn(count: int, most: int, what: str) -> str:
    """Return the sentence that an object of so many nodes is not drawn; empty if it is."""
    return f"Not drawn, since it has {count:,} {what}, more than {most:,}." if count > most else ""


def glow(spots: Sequence[tuple[float, float, float]], reach: float) -> Markup:
    """Return a soft spot of color for each contribution, to draw below atoms or nodes.

    A spot has its horizontal and vertical place and its contribution; the gradients that fill it
    are in the page.
    """
    from markupsafe import Markup

    largest = max((abs(share) for _, _, share in spots), default=0.0) or 1.0
    circle = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" fill="url(#{})" opacity="{:.2f}"/>')
    return Markup("").join(
        circle.format(x, y, reach, "favor" if share > 0 else "against", abs(share) / largest)
        for x, y, share in spots
        if share
    )


SQUARE = 5.2  # inches, of a plot whose axes have the same unit


@dataclass(frozen=True)
class ResultBar:
    """One row of the comparison: a name, an accuracy and its interval, as fractions."""

    name: str
    accuracy: float
    low: float
    high: float
    is_model: bool


@both_widths
def comparison(width: float, results: Sequence[ResultBar], nouns: str) -> Drawing:
    """Plot accuracies with 95 % intervals, one row each, the first on top."""
    figure, axes = canvas(width, 0.6 + 0.45 * len(results))
    rows = range(len(results) - 1, -1, -1)
    for row, result in zip(rows, results, strict=True):
        color = MODEL if result.is_model else BASELINE
        low, high = 100 * result.low, 100 * result.high
        axes.plot([low, high], [row, row], color=color, linewidth=3, solid_capstyle="round")
        axes.plot([100 * result.accuracy], [row], "o", color=color, markersize=8)
    if is_narrow(width):  # names above the rows leave the width to the intervals
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        for row, result in zip(rows, results, strict=True):
            axes.text(0, row + 0.2, plain(result.name), color=INK, va="bottom",
                      transform=axes.get_yaxis_transform())  # fmt: skip
    else:
        axes.set_yticks(list(rows), [plain(r.name) for r in results])
    axes.set_ylim(-0.6, len(results) - 0.4)
    axes.set_xlabel(f"accuracy on the test {nouns} (%)")
    axes.grid(axis="x", color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.tick_params(axis="y", length=0)
    return Drawing(figure, "Accuracy of the model and of the baselines")


@both_widths
def learning_curves(
    width: float, losses: Mapping[str, Sequence[tuple[float, float]]],
    accuracies: Mapping[str, Sequence[tuple[float, float]]], best_epoch: float | None, noun: str,
) -> Drawing:  # fmt: skip
    """Plot loss and accuracy against the epoch.

    Points are ``(epoch, nats per object)`` and ``(epoch, fraction)``; a line marks the best epoch.
    """
    figure, (left, right) = canvases(width, 3.0, 2)
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
        axes.legend(frameon=False, labelcolor=INK, loc="best")
    return Drawing(figure, "Learning curves: loss and accuracy per epoch")


@both_widths
def perplexity_curves(width: float, history: Sequence[Mapping[str, float]]) -> Drawing:
    """Plot training and validation perplexity against the epoch, on a log scale.

    Rows are those of metrics.jsonl, with ``train_loss`` and ``valid_loss`` in nats per token.
    """
    labels = {"train_loss": "training, with dropout", "valid_loss": "validation"}
    curves = {
        label: [(row["epoch"], math.exp(row[name])) for row in history if row.get(name)]
        for name, label in labels.items()
    }
    return _log_curves(width, curves, "perplexity per token", "training text")


@both_widths
def parity(width: float, points: Sequence[Sequence[float]], name: str) -> Drawing:
    """Plot predicted against true values, with error bars of one standard deviation."""
    figure, axes = canvas(min(width, SQUARE), min(width, SQUARE))
    truth, predictions, deviations = zip(*points, strict=True)
    axes.errorbar(
        truth, predictions, yerr=deviations, fmt="o", color=MODEL, ecolor=BASELINE, alpha=0.7,
        markersize=3, elinewidth=0.7,
    )  # fmt: skip
    ends = min(*truth, *predictions), max(*truth, *predictions)
    axes.plot(ends, ends, color=INK, linestyle=":", linewidth=1)
    short = shorten(name, 30, placeholder=" …") if is_narrow(width) else name
    axes.set_xlabel(plain(f"true {short}"))
    axes.set_ylabel(plain(f"predicted {short}"))
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    return Drawing(figure, "Predicted against true values")


@both_widths
def reliability(width: float, bins: Sequence[Mapping[str, float]]) -> Drawing:
    """Plot the accuracy of each bin of confidences, with areas proportional to its predictions."""
    figure, axes = canvas(min(width, SQUARE), min(width, SQUARE))
    axes.plot([0, 100], [0, 100], color=INK, linestyle=":", linewidth=1)
    confidence, accuracy = (
        [100 * row[name] for row in bins] for name in ("confidence", "accuracy")
    )
    total = sum(row["count"] for row in bins)
    sizes = [12 + 500 * row["count"] / total for row in bins]
    axes.plot(confidence, accuracy, color=MODEL, linewidth=1)
    axes.scatter(confidence, accuracy, s=sizes, color=MODEL, alpha=0.7, linewidth=0)
    axes.set(xlim=(0, 102), ylim=(0, 102))
    axes.set_xlabel("probability of the predicted class (%)")
    axes.set_ylabel("accuracy (%)")
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    return Drawing(figure, "Accuracy by confidence")


@both_widths
def loss_curves(
    width: float, losses: Mapping[str, Sequence[tuple[float, float]]], unit: str
) -> Drawing:
    """Plot losses against the epoch, on a log scale.

    Curves have points ``(epoch, loss)``, ``"training"`` first; ``unit`` is what the loss is, with
    its unit.
    """
    return _log_curves(width, losses, unit, "training data")


def _log_curves(
    width: float, curves: Mapping[str, Sequence[tuple[float, float]]], what: str, passes: str
) -> Drawing:
    figure, axes = canvas(width, 3.0)
    for color, (name, points) in zip((MODEL, VALID), curves.items(), strict=True):
        if points:
            axes.plot(*zip(*points, strict=True), "-o", color=color, markersize=3, label=name)
    values = [value for points in curves.values() for _, value in points if value > 0]
    if values:
        log_ticks(axes, *axes.get_ylim() if min(values) == max(values) else _widened(values))
    axes.set_xlabel(f"epoch (passes over the {passes})")
    axes.set_ylabel(what)
    axes.locator_params(axis="x", integer=True)
    axes.grid(color=BASELINE, alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False, labelcolor=INK, loc="best")
    return Drawing(figure, f"Learning curves: {what} by epoch")


def _widened(values: Sequence[float]) -> tuple[float, float]:
    return 0.95 * min(values), 1.05 * max(values)


def subjects_drawing(
    width: float, model: Mapping[str, float], baseline: Mapping[str, float] | None, chance: float
) -> Drawing:
    """Plot the accuracies of the model and of the baseline on each subject, as in L19 Fig. 4.

    A line is the accuracy of always predicting the most common class.
    """
    figure, axes = canvas(width, 3.2)
    bar = 0.4 if baseline else 0.7
    places = list(range(len(model)))
    shares = [100 * share for share in model.values()]
    axes.bar([p - bar / 2 for p in places] if baseline else places, shares, bar, color=MODEL,
             label="model")  # fmt: skip
    if baseline:
        shares = [100 * baseline[name] for name in model]
        axes.bar([p + bar / 2 for p in places], shares, bar, color=BASELINE, label="baseline")
    axes.axhline(100 * chance, color=INK, linestyle=":", linewidth=1, label="most common class")
    is_crowded = len(" ".join(model)) > 9 * width
    axes.set_xticks(places, [plain(name) for name in model], rotation=90 if is_crowded else 0)
    axes.set_ylim(0, 100)
    axes.set_ylabel("accuracy (%)")
    axes.set_xlabel("test subject")
    axes.legend(frameon=False, labelcolor=INK, ncols=1 if is_narrow(width) else 3,
                loc="lower right", bbox_to_anchor=(1, 1))  # fmt: skip
    return Drawing(figure, "Accuracy on each subject")


subjects = both_widths(subjects_drawing)
