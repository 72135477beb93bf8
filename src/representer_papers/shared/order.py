"""Comparison of two rankings of the cells: rank correlation, and the pairs that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

LEVEL = 0.05  # of the paired t-test over seeds


def order_lines(
    name: str, paper: Mapping[str, float], ours: Mapping[str, Mapping[int, float]]
) -> list[str]:
    """Return sentences that compare the paper's ranking of the cells with ours.

    Args:
        name: Subject of the sentence, for example ``"1-gram"``.
        paper: The paper's figure of each cell.
        ours: Our figures of each cell, by seed.

    Returns:
        An empty line and a line of Markdown; nothing if a cell is missing, if the cells have
        different seeds, if there is only one cell, or if all figures of the paper or all means are
        equal.
    """
    seeds = sorted(next(iter(ours.values()), {}))
    is_order = len(paper) > 1 and set(paper) == set(ours)
    if not is_order or not seeds or any(sorted(by_seed) != seeds for by_seed in ours.values()):
        return []
    import numpy as np
    from scipy.stats import rankdata

    cells = list(paper)
    figures = {cell: [ours[cell][seed] for seed in seeds] for cell in cells}
    means = {cell: sum(figures[cell]) / len(seeds) for cell in cells}
    if 1 in (len(set(paper.values())), len(set(means.values()))):  # no order to compare
        return []
    ranks = [rankdata([ranked[c] for c in cells]) for ranked in (paper, means)]
    rank = np.corrcoef(*ranks)[0, 1]
    line = (
        f"{name}: the paper's order is {_ranking(paper)}; ours {_ranking(means)}. "
        f"Spearman's rank correlation {rank:.2f}."
    )
    if len(seeds) > 1:
        pairs = list(combinations(cells, 2))
        apart = [pair for pair in pairs if _differ(figures, pair)]
        agree = [pair for pair in apart if _sign(paper, pair) * _sign(means, pair) > 0]
        line += (
            f" Of {len(pairs)} pairs of cells, {len(apart)} differ by the paired t-test over "
            f"{len(seeds)} seeds (p < {LEVEL}), {len(agree)} of them as in the paper."
        )
    return ["", line]


def _ranking(figures: Mapping[str, float]) -> str:
    return " > ".join(sorted(figures, key=lambda cell: -figures[cell]))


def _sign(figures: Mapping[str, float], pair: tuple[str, str]) -> int:
    first, second = (figures[cell] for cell in pair)
    return (first > second) - (first < second)


def _differ(figures: Mapping[str, Sequence[float]], pair: tuple[str, str]) -> bool:
    from scipy.stats import ttest_rel

    first, second = (figures[cell] for cell in pair)
    gaps = {a - b for a, b in zip(first, second, strict=True)}
    if len(gaps) == 1:  # the test is undefined without variance
        return gaps != {0.0}
    return bool(ttest_rel(first, second).pvalue < LEVEL)
