"""Plots of learned activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from representer.errors import ArgumentError, MissingExtraError
from representer.nn.activation.compaction import exact_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from representer.nn.activation.kernel_activation import KernelActivation

POINTS = 801
INK, STEEP = "#3b82c4", "#d9822b"


def plotted(activation: KernelActivation, span: tuple[float, float], columns: int) -> Figure:
    """Plot every function on a range; see ``KernelActivation.plot``.

    Raises:
        MissingExtraError: If matplotlib is not installed.
        ArgumentError: If the range is empty, or columns is not positive.
    """
    low, high = span
    if not low < high:
        raise ArgumentError("span", span, "two numbers, the lower one first")
    if columns < 1:
        raise ArgumentError("columns", columns, "1 or more")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot()", "matplotlib", "train") from error
    grid = torch.linspace(low, high, POINTS, dtype=torch.float64)
    values = exact_values(activation, grid[:, None].expand(-1, activation.num_features)).T
    steepest = (values.diff(dim=1) / (grid[1] - grid[0])).abs().amax(1).tolist()
    columns = min(columns, activation.num_features)
    rows = -(-activation.num_features // columns)
    figure = Figure(figsize=(1.6 * columns, 1.3 * rows), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in every[activation.num_features :]:
        axes.set_axis_off()
    for axes, y, steep in zip(every, values.tolist(), steepest, strict=False):
        axes.plot(grid.tolist(), y, color=INK, linewidth=1.2)
        axes.tick_params(labelsize=6)
        for spine in axes.spines.values() if steep > 1 else ():
            spine.set(linestyle=(0, (4, 2)), color=STEEP)
    return figure
