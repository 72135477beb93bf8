"""Small multiples as SVG, in the layout of M18's figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.errors import MissingExtraError
from representer.storage.atomic import write_text

COLORS = ("#3b82c4", "#d9822b", "#5aa469", "#8a63b8", "#b04a5a", "#6b7280")
COLORS += ("#2a9d8f", "#d66ba0", "#8c8c2a", "#1f2937")
LEGEND = 5  # labels in a row of the legend


def panels(
    path: Path,
    drawings: Sequence[Mapping[str, Any]],
    *,
    columns: int,
    title: str,
    size: tuple[float, float] = (2.3, 1.7),
) -> None:
    """Draw a grid of small axes."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("the pictures", "matplotlib", "train") from error
    rows = -(-len(drawings) // columns)
    figsize = (columns * size[0], rows * size[1] + 0.4)
    figure = Figure(figsize=figsize, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    colors: dict[str, str] = {}
    for axes, drawing in zip(grid, drawings, strict=False):
        for label, points in drawing.get("lines", {}).items():
            color = colors.setdefault(label, COLORS[len(colors) % len(COLORS)])
            mark = "-o" if drawing.get("marks") else "-"
            if points:
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, mark, color=color, linewidth=1.2, markersize=3, label=label)
        for x, y in drawing.get("dots", ()):
            axes.plot([x], [y], "o", color="#222222", markersize=3)
        if drawing.get("log"):
            axes.set_xscale("log")
        if drawing.get("framed"):
            for spine in axes.spines.values():
                spine.set_linestyle((0, (4, 2)))
                spine.set_color(COLORS[1])
        axes.set_ylim(drawing.get("ylim"))
        axes.set_title(drawing["title"], fontsize=8)
        axes.set_xlabel(drawing.get("xlabel", ""), fontsize=7)
        axes.set_ylabel(drawing.get("ylabel", ""), fontsize=7)
        axes.tick_params(labelsize=6)
    for axes in grid[len(drawings) :]:
        axes.set_axis_off()
    if len(colors) > 1:
        handles = {
            label: h
            for axes in grid
            for h, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(), handles, loc="outside lower center",
            ncols=min(LEGEND, len(handles)), fontsize=7, frameon=False,
        )  # fmt: skip
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    drawing = buffer.getvalue()
    write_text(path, drawing[drawing.index("<svg") :])
