"""The learning curve of the molecules: a line through the errors by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from representer_papers.shared.table import mean, table_head, table_row
from representer_papers.string_graph2017.published import MOLECULE_NETWORKS as NETWORKS

TRAINING = 1_900_000  # molecules in the paper's training part
Errors = Mapping[str, Sequence[tuple[int, float]]]  # molecules and RMSE of each run, by network
_ABOUT = (
    "",
    "## Fewer molecules for training",
    "",
    "The same networks with a part of the training molecules, the same number of steps and the",
    "same test molecules. The last columns are of a straight line, by least squares over all runs,",
    "through the logarithm of the error against that of the number of molecules, with 95 %",
    "intervals (Student's t). They suppose that the line goes on, which no figure here shows.",
)


class Line(NamedTuple):
    """A power law of the error, with 95 % intervals.

    Attributes:
        doubled: Factor of the error with twice as many molecules: low, best, high.
        at: Error with the number of molecules that was asked for: low, best, high.
    """

    doubled: tuple[float, float, float]
    at: tuple[float, float, float]


def curve_lines(parts: Sequence[Errors]) -> list[str]:
    """Return the section, or nothing if no network has runs with three numbers of molecules.

    Args:
        parts: The errors with each part of the molecules, the smallest part first.
    """
    names = [name for name in NETWORKS if all(part.get(name) for part in parts)]
    if len(parts) < 3 or not names:
        return []
    sizes = [part[names[0]][0][0] for part in parts]
    heads = [*(f"{size:,}" for size in sizes), "twice as many", f"{TRAINING:,}", "L17"]
    return [*_ABOUT, "", *table_head("", *heads), *(_row(name, parts) for name in names)]


def fitted(points: Sequence[tuple[int, float]], at: int) -> Line:
    """Return the line through the logarithms of at least three points."""
    import numpy as np
    from scipy.stats import t

    x, y = np.log2(np.array(points, float)).T
    x -= np.log2(at)  # so that the constant is the value there
    best, covariance = np.polyfit(x, y, 1, cov="unscaled")
    freedom = len(points) - 2
    variance = ((y - np.polyval(best, x)) ** 2).sum() / freedom
    half = t.ppf(0.975, freedom) * np.sqrt(variance * np.diag(covariance))
    doubled, there = (tuple(column) for column in 2 ** np.stack((best - half, best, best + half)).T)
    return Line(doubled, there)


def _row(name: str, parts: Sequence[Errors]) -> str:
    line = fitted([point for part in parts for point in part[name]], TRAINING)
    paper = NETWORKS[name].rmse
    low, best, high = (100 * (factor - 1) for factor in line.doubled)
    return table_row(
        NETWORKS[name].title,
        *(f"{mean([rmse for _, rmse in part[name]], 4)} ({len(part[name])})" for part in parts),
        f"{best:+.1f} % ({low:+.1f} to {high:+.1f})",
        f"{line.at[1]:.3f} ({line.at[0]:.3f} to {line.at[2]:.3f})",
        "–" if paper is None else f"{paper:.4f}",
    )
