"""The table of graph classification: mean accuracies with their spread, beside published ones."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Request
from representer.tasks.storage import atomic
from representer_papers.shared.table import heading, smoke_warning
from representer_papers.string_graph2017.graph_sets import FAMILIES, NETWORKS, PUBLISHED, GraphSet

# By row and data set, the results of each repeat.
Results = dict[tuple[str, str], list[dict[str, Any]]]
_BELOW = ("walk", "levels", "wl")
_ABOUT = (
    "",
    "Test accuracy in %, nested ten-fold cross-validation: the inner folds (five, or three above",
    "500 graphs) choose the kernel of a row and the C of the support vector machine, from 1, 10,",
    "100, 1000. Kernels see the labels of nodes (degrees, where all labels are the same), none of",
    "edges, and have a unit diagonal; the machine's solver makes at most 100,000 steps. Networks",
    "keep the epoch that is best on a ninth of the training part. The first repeat has the folds",
    "of the data set's file, the others are drawn.",
    "A figure is the mean over repeats; behind it the deviation over repeats, where there are",
    "several, then that over the ten folds, then the number of repeats. The deviation over folds",
    "is large: smaller differences than about a third of it are not to be relied on.",
    "",
    "Rows differ in how many kernels they choose from: activation by RBF triples them.",
)


def write_table(request: Request, datasets: Sequence[GraphSet]) -> Path:
    """Write ``table.md`` of all results of the folder, and return its path."""
    names = [dataset.name for dataset in datasets]
    results = _results(request.out, names)
    lines = [
        *heading("Graph classification: kernels and their networks", request),
        *_ABOUT,
        *smoke_warning(request),
        "",
        "| | " + " | ".join(dataset.folder for dataset in datasets) + " |",
        "|---|" + "---:|" * len(datasets),
    ]
    for row, title in (FAMILIES | NETWORKS).items():
        cells = [_cell(results.get((row, name), [])) for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for row, source in PUBLISHED.items():
        shown = [dataset.published.get(row) for dataset in datasets]
        cells = ["–" if value is None else f"{value:.1f}" for value in shown]
        if any(value is not None for value in shown):
            lines.append(f"| *{row}* ({source}) | {' | '.join(cells)} |")
    lines += _verdict(results, datasets) + _choices(results, datasets)
    path = request.out / "table.md"
    atomic.write_text(path, "\n".join(lines) + "\n")
    return path


def _results(out: Path, names: Sequence[str]) -> Results:
    found: Results = {}
    for name in names:
        for folder in sorted((out / name).glob("seed*")):
            for row in FAMILIES | NETWORKS:
                path = folder / f"{row}.json"
                if path.exists():
                    found.setdefault((row, name), []).append(json.loads(path.read_text("utf-8")))
    return found


def _shares(result: Mapping[str, Any]) -> list[float]:
    """Return the accuracy of each fold of a repeat, in %."""
    return [100 * fold["right"] / fold["tested"] for fold in result["folds"]]


def _mean(results: Sequence[Mapping[str, Any]]) -> float:
    return statistics.mean(statistics.mean(_shares(result)) for result in results)


def _cell(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "not run"
    means = [statistics.mean(_shares(result)) for result in results]
    folds = statistics.mean(statistics.stdev(_shares(result)) for result in results)
    over = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{over} (folds ± {folds:.1f}; {len(means)})"


def _verdict(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Say where composing is ahead of the plain kernel, and where it stands to WL."""
    lines = ["", "## Composing, beside the plain kernel", ""]
    lines += ["| | " + " | ".join(d.folder for d in datasets) + " | ahead |"]
    lines += ["|---|" + "---:|" * len(datasets) + "---|"]
    pairs = [(f"{below}-{kind}", below) for below in _BELOW for kind in ("inverse", "rbf")]
    pairs += [(row, "wl") for row in ("levels", "levels-inverse", "levels-rbf")]
    for row, other in pairs:
        gaps = [_gaps(results, row, other, dataset.name) for dataset in datasets]
        run = [statistics.mean(gap) for gap in gaps if gap]
        ahead = f"{sum(gap > 0 for gap in run)} of {len(run)}" if run else "–"
        title = f"{FAMILIES[row]}, against {FAMILIES[other]}"
        lines.append(f"| {title} | {' | '.join(map(_gap, gaps))} | {ahead} |")
    note = (
        "Difference in points on the same repeats and folds, with its standard error over the "
        "folds of the repeats, which are not independent of each other; so the error is optimistic."
    )
    return [*lines, "", note]


def _gaps(results: Results, row: str, other: str, name: str) -> list[float]:
    """Return the differences of two rows fold by fold, in points."""
    pairs = zip(results.get((row, name), []), results.get((other, name), []), strict=False)
    return [
        a - b
        for first, second in pairs
        for a, b in zip(_shares(first), _shares(second), strict=True)
    ]


def _gap(gaps: Sequence[float]) -> str:
    if not gaps:
        return "–"
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{statistics.mean(gaps):+.1f} ± {error:.1f}"


def _choices(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Say which kernel was chosen most often."""
    lines = ["", "## What the inner folds chose most often", ""]
    lines += ["| | " + " | ".join(d.folder for d in datasets) + " |"]
    lines += ["|---|" + "---|" * len(datasets)]
    for row, title in FAMILIES.items():
        cells = []
        for dataset in datasets:
            folds = [f for r in results.get((row, dataset.name), []) for f in r["folds"]]
            chosen = [f"{fold['kernel']}, C={fold['C']:g}" for fold in folds]
            often = max(sorted(set(chosen)), key=chosen.count) if chosen else ""
            cells.append(f"{often} ({chosen.count(often)} of {len(chosen)})" if chosen else "–")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines
