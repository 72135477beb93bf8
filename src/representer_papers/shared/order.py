"""Whether the cells come out in the paper's order: rank correlation, and the pairs that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

LEVEL = 0.05  # of the paired t-test over seeds


def order_lines(
    name: str, paper: Mapping[str, float], ours: Mapping[str, Sequence[float]]
) -> list[str]:
    """Return sentences that compare two orders of the cells, best first.

    Args:
        name: What is compared, for example ``"1-gram"``.
        paper: The paper's figure of each cell.
        ours: Ours, one a seed, in the same order of the seeds for every cell.

    Returns:
        Lines of Markdown; none where a cell of the paper's was not run, or not with every seed, or
        where there is one cell alone, or all are level.
    """
    counts = {len(values) for values in ours.values()}
    is_order = len(paper) > 1 and set(paper) == set(ours)
    if not is_order or len(counts) != 1 or not (seeds := counts.pop()):
        return []
    import numpy as np
    from scipy.stats import rankdata

    cells = list(paper)
    means = {cell: sum(ours[cell]) / seeds for cell in cells}
    if len(set(means.values())) == 1:
        return []
    ranks = [rankdata([figures[c] for c in cells]) for figures in (paper, means)]
    rank = np.corrcoef(*ranks)[0, 1]
    lines = [
        f"{name}: the paper's order is {_ranking(paper)}; ours {_ranking(means)}. "
        f"Spearman's rank correlation {rank:.2f}."
    ]
    if seeds > 1:
        apart = [pair for pair in combinations(cells, 2) if _differ(ours, pair)]
        agree = [p for p in apart if _sign(paper, p) * _sign(means, p) > 0]
        lines[0] += (
            f" Of {len(cells) * (len(cells) - 1) // 2} pairs of cells {len(apart)} differ by the "
            f"paired t-test over {seeds} seeds (p < {LEVEL}), {len(agree)} of them as in the paper."
        )
    return lines


def _ranking(figures: Mapping[str, float]) -> str:
    return " > ".join(sorted(figures, key=lambda cell: -figures[cell]))


def _sign(figures: Mapping[str, float], pair: tuple[str, str]) -> int:
    first, second = (figures[cell] for cell in pair)
    return (first > second) - (first < second)


def _differ(ours: Mapping[str, Sequence[float]], pair: tuple[str, str]) -> bool:
    from scipy.stats import ttest_rel

    first, second = (ours[cell] for cell in pair)
    gaps = {a - b for a, b in zip(first, second, strict=True)}
    if len(gaps) == 1:  # no spread to test against
        return gaps != {0.0}
    return bool(ttest_rel(first, second).pvalue < LEVEL)
