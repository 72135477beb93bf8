"""Matplotlib figures as SVG in the colors of the page.

Text and axes use ``currentColor``, so figures are readable on light and dark backgrounds.
"""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

from representer.errors import MissingExtraError
from representer.printable import printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # placeholder, replaced by the text color of the page
MODEL, BASELINE, VALID = "#3b82c4", "#8a8f98", "#d9822b"


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes; sizes in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure, (axes,) = canvases(width, height, 1)
    return figure, axes


def canvases(width: float, height: float, count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with several pairs of axes side by side; sizes in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingExtraError("the figures of the report", "matplotlib", "train") from error
    with rc_context({"font.size": 10}):
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(wspace=0.08))
        axes = [figure.add_subplot(1, count, i + 1) for i in range(count)]
    for a in axes:
        a.patch.set_alpha(0)
        a.spines[["top", "right"]].set_visible(False)
        a.spines[["left", "bottom"]].set_color(INK)
        a.tick_params(colors=INK)
        a.xaxis.label.set_color(INK)
        a.yaxis.label.set_color(INK)
    return figure, axes


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

    buffer = io.StringIO()
    # text instead of outlines uses the page's font, can be selected, and is ten times smaller
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue().replace(INK, "currentColor")
    drawing = drawing[drawing.index("<svg") :]
    return Markup(
        drawing.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(title))}"', 1)
    )
