"""Matplotlib figures as SVG in the colors of the page, drawn for a laptop and for a phone.

Text and axes use ``currentColor``, so figures are readable on light and dark backgrounds.
"""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

from representer.errors import MissingExtraError
from representer.printable import printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

    Args:
        draw: From the width in inches and its own arguments to a figure.
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

    Args:
        width: Of the figure.
        height: Of one pair of axes.
        count: Number of pairs.
        is_stacked: Put them below each other on every screen.

    Raises:
        MissingExtraError: If matplotlib is not installed.
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
        found = [d * 10.0**k for k in decades for d in digits if least <= d * 10.0**k <= most]
        if len(found) <= count:
            return [float(f"{one:.6g}") for one in found]
    return [float(f"{one:.6g}") for one in found[:: -(-len(found) // count)]]


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
    own = hashlib.sha256(drawing.encode()).hexdigest()[:8]  # a page has many figures
    drawing = re.sub(r'( id="|href="#|url\(#)', rf"\1f{own}-", drawing)
    return Markup(
        drawing.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(title))}"', 1)
    )


def not_drawn(count: int, most: int, what: str) -> str:
    """Return the sentence that an object of so many nodes is not drawn; empty if it is."""
    return f"Not drawn, since it has {count:,} {what}, more than {most:,}." if count > most else ""


def glow(spots: Sequence[tuple[float, float, float]], reach: float) -> Markup:
    """Return a soft spot of color for each contribution, to draw below atoms or nodes.

    Args:
        spots: Horizontal and vertical place and contribution of each.
        reach: Radius of a spot. The gradients that fill it are in the page.
    """
    from markupsafe import Markup

    largest = max((abs(share) for _, _, share in spots), default=0.0) or 1.0
    one = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" fill="url(#{})" opacity="{:.2f}"/>')
    return Markup("").join(
        one.format(x, y, reach, "favor" if share > 0 else "against", abs(share) / largest)
        for x, y, share in spots
        if share
    )
