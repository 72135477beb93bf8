"""The table of graph classification: mean accuracies with their spread, beside published ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Request
from representer_papers.shared.table import metrics_by_seed, table_head, table_row, write_page
from representer_papers.string_graph2017.published import (
    FAMILIES,
    GRAPH_NETWORKS,
    PUBLISHED,
    GraphSet,
)

# By row and data set, the result of each repeat by its seed.
Results = dict[tuple[str, str], dict[int, dict[str, Any]]]
_BELOW = ("walk", "levels", "wl")
_ABOUT = (
    "",
    "Test accuracy in %, nested ten-fold cross-validation: the inner folds (five, or three from",
    "500 graphs on) select the kernel of a row and the C of the support vector machine, from 1,",
    "10, 100, 1000. Kernels use node labels (degrees, where all labels are equal) but no edge",
    "labels, and have a unit diagonal; the SVM solver makes at most 100,000 steps. Networks keep",
    "the epoch that is best on a ninth of the training part. The first repeat uses the folds of",
    "the data set's file, the others use random folds.",
    "A cell gives the mean over repeats, ± the standard deviation over repeats if there are",
    "several, and in parentheses the standard deviation over the ten folds and the number of",
    "repeats. The deviation over folds is large: do not rely on differences smaller than about a",
    "third of it.",
    "",
    "Rows differ in the number of kernels they select from: composing with RBF triples it.",
)


def write_table(request: Request, datasets: Sequence[GraphSet]) -> Path:
    """Write ``table.md`` from all results of the folder, and return its path."""
    results = {
        (row, dataset.name): repeats
        for dataset in datasets
        for row, repeats in metrics_by_seed(request.out / dataset.name, "row").items()
    }
    lines = ["", *table_head("", *(dataset.folder for dataset in datasets))]
    for name, title in (FAMILIES | GRAPH_NETWORKS).items():
        cells = [_cell(list(results.get((name, d.name), {}).values())) for d in datasets]
        lines.append(table_row(title, *cells))
    for name, source in PUBLISHED.items():
        shown = [dataset.published.get(name) for dataset in datasets]
        if any(value is not None for value in shown):
            cells = ["–" if value is None else f"{value:.1f}" for value in shown]
            lines.append(table_row(f"*{name}* ({source})", *cells))
    lines += _comparison(results, datasets) + _choices(results, datasets)
    return write_page(request, "Graph classification: kernels and their networks", _ABOUT, lines)


def _accuracies(result: Mapping[str, Any]) -> list[float]:
    """Return the accuracy of each fold of a repeat, in %."""
    return [100 * fold["right"] / fold["tested"] for fold in result["folds"]]


def _cell(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "not run"
    means = [statistics.mean(_accuracies(result)) for result in results]
    folds = statistics.mean(statistics.stdev(_accuracies(result)) for result in results)
    over = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{over} (folds ± {folds:.1f}; {len(means)})"


def _comparison(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Return the differences of composed and plain kernels, and of the plain ones and WL."""
    folders = [dataset.folder for dataset in datasets]
    align = f"l{'r' * len(datasets)}l"
    lines = ["", "## Composed and plain kernels", ""]
    lines += table_head("", *folders, "mean above 0", align=align)
    pairs = [(f"{below}-{kind}", below) for below in _BELOW for kind in ("inverse", "rbf")]
    pairs += [(name, "wl") for name in ("levels", "levels-inverse", "levels-rbf")]
    for name, other in pairs:
        gaps = [_gaps(results, name, other, dataset.name) for dataset in datasets]
        means = [statistics.mean(gap) for gap in gaps if gap]
        count = f"{sum(mean > 0 for mean in means)} of {len(means)}" if means else "–"
        title = f"{FAMILIES[name]}, minus {FAMILIES[other]}"
        lines.append(table_row(title, *map(_gap, gaps), count))
    note = (
        "Mean difference in points on the same repeats and folds, ± its standard error over the "
        "folds. Folds share training data, so the true error is larger."
    )
    return [*lines, "", note]


def _gaps(results: Results, row: str, other: str, name: str) -> list[float]:
    """Return the differences of two rows fold by fold, in points, on the repeats of both."""
    first, second = (results.get((which, name), {}) for which in (row, other))
    return [
        a - b
        for seed in sorted(first.keys() & second.keys())
        for a, b in zip(_accuracies(first[seed]), _accuracies(second[seed]), strict=True)
    ]


def _gap(gaps: Sequence[float]) -> str:
    if not gaps:
        return "–"
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{statistics.mean(gaps):+.1f} ± {error:.1f}"


def _choices(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Return the table of the kernels selected most often."""
    lines = ["", "## Kernels selected most often by the inner folds", ""]
    lines += table_head("", *(d.folder for d in datasets), align="l" * (1 + len(datasets)))
    for name, title in FAMILIES.items():
        cells = []
        for dataset in datasets:
            repeats = results.get((name, dataset.name), {}).values()
            folds = [fold for repeat in repeats for fold in repeat["folds"]]
            chosen = [f"{fold['kernel']}, C={fold['C']:g}" for fold in folds]
            often = max(sorted(set(chosen)), key=chosen.count) if chosen else ""
            cells.append(f"{often} ({chosen.count(often)} of {len(chosen)})" if chosen else "–")
        lines.append(table_row(title, *cells))
    return lines
