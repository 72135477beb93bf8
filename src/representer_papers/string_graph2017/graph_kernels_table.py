"""The table of graph classification: mean accuracies with their spread, beside published ones."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.shared.table import heading, smoke_warning
from representer_papers.string_graph2017.graph_sets import FAMILIES, NETWORKS, PUBLISHED, GraphSet

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
        cells = [_cell(list(results.get((row, name), {}).values())) for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for row, source in PUBLISHED.items():
        shown = [dataset.published.get(row) for dataset in datasets]
        cells = ["–" if value is None else f"{value:.1f}" for value in shown]
        if any(value is not None for value in shown):
            lines.append(f"| *{row}* ({source}) | {' | '.join(cells)} |")
    lines += _comparison(results, datasets) + _choices(results, datasets)
    path = request.out / "table.md"
    atomic.write_text(path, "\n".join(lines) + "\n")
    return path


def _results(out: Path, names: Sequence[str]) -> Results:
    results: Results = {}
    for name in names:
        for folder in sorted((out / name).glob("seed*")):
            seed = int(folder.name.removeprefix("seed"))
            for row in FAMILIES | NETWORKS:
                path = folder / f"{row}.json"
                if path.exists():
                    result = json.loads(path.read_text("utf-8"))
                    results.setdefault((row, name), {})[seed] = result
    return results


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
    lines = ["", "## Composed and plain kernels", ""]
    lines += ["| | " + " | ".join(d.folder for d in datasets) + " | mean above 0 |"]
    lines += ["|---|" + "---:|" * len(datasets) + "---|"]
    pairs = [(f"{below}-{kind}", below) for below in _BELOW for kind in ("inverse", "rbf")]
    pairs += [(row, "wl") for row in ("levels", "levels-inverse", "levels-rbf")]
    for row, other in pairs:
        gaps = [_gaps(results, row, other, dataset.name) for dataset in datasets]
        means = [statistics.mean(gap) for gap in gaps if gap]
        count = f"{sum(mean > 0 for mean in means)} of {len(means)}" if means else "–"
        title = f"{FAMILIES[row]}, minus {FAMILIES[other]}"
        lines.append(f"| {title} | {' | '.join(map(_gap, gaps))} | {count} |")
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
    lines += ["| | " + " | ".join(d.folder for d in datasets) + " |"]
    lines += ["|---|" + "---|" * len(datasets)]
    for row, title in FAMILIES.items():
        cells = []
        for dataset in datasets:
            repeats = results.get((row, dataset.name), {}).values()
            folds = [fold for repeat in repeats for fold in repeat["folds"]]
            chosen = [f"{fold['kernel']}, C={fold['C']:g}" for fold in folds]
            often = max(sorted(set(chosen)), key=chosen.count) if chosen else ""
            cells.append(f"{often} ({chosen.count(often)} of {len(chosen)})" if chosen else "–")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines
