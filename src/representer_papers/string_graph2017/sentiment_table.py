"""The table of sentiment classification: the paper's figures above ours, by seed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from representer.tasks.recipe import Request
from representer_papers.shared.table import (
    mean_accuracy,
    metrics_by_seed,
    seed_cells,
    seeds_of,
    table_head,
    table_row,
    write_page,
)
from representer_papers.string_graph2017.published import SENTIMENT
from representer_papers.string_graph2017.published import SENTIMENT_CELLS as CELLS
from representer_papers.string_graph2017.treebank import DataSet

_ABOUT = (
    "Test accuracy at the best validation accuracy, by seed; validated and tested on whole",
    "sentences. Three layers of 200 units, order 2; *gated* decay depends on x and h,",
    "*constant* decay is 0.5. Word vectors are frozen (as in the paper), *tuned*, or *learned*",
    "from scratch. The paper prints the best of five runs; its means and validation figures",
    "are from the page of the authors' code. Intervals are Wilson's at 95 %.",
)


class Row(NamedTuple):
    """The finished runs of one row."""

    cell: str
    preset: str
    vectors: str | None  # name of the word vectors
    runs: dict[int, dict[str, Any]]  # metrics by seed


def write_table(request: Request, datasets: Sequence[DataSet]) -> Path:
    """Write ``table.md`` from all finished runs of the folder, and return its path.

    Data sets without a finished run are omitted.
    """
    rows = {dataset.name: _finished(request.out / dataset.name) for dataset in datasets}
    lines = ["", *_cover(rows)]
    for dataset in datasets:
        if rows[dataset.name]:
            lines += ["", *_section(request.out, dataset, rows[dataset.name])]
    if not any(rows.values()):
        lines.append("No run is finished.")
    return write_page(request, "L17 Table 2: sentiment, test accuracy in %", _ABOUT, lines)


def _finished(folder: Path) -> list[Row]:
    """Return the rows of a data set, in the order of `CELLS`."""
    rows = metrics_by_seed(folder, "cell", "preset", "vectors")
    finished = [Row(*key, runs=runs) for key, runs in rows.items()]
    return sorted(finished, key=lambda row: (CELLS.index(row.cell), row.preset, row.vectors or ""))


def _cover(rows: dict[str, list[Row]]) -> list[str]:
    """Return the coverage of the word vectors; the paper's cover nearly all words."""
    covers = {
        (row.vectors, dataset): next(iter(row.runs.values()))["cover"]
        for dataset, finished in rows.items()
        for row in finished
        if row.vectors
    }
    return [
        f"- `{vectors}` covers {cover['running']:.1%} of the running words in the test sentences "
        f"of {dataset}, and {cover['types']:.1%} of the distinct words in all its parts."
        for (vectors, dataset), cover in covers.items()
    ]


def _section(out: Path, dataset: DataSet, rows: Sequence[Row]) -> list[str]:
    path = out / dataset.name / "baselines.json"
    beside = json.loads(path.read_text("utf-8")) if path.exists() else None
    seeds = seeds_of(dict(enumerate(row.runs for row in rows)))
    heads = ["word vectors", "preset", *(f"seed {seed}" for seed in seeds)]
    heads += ["mean", "best", "validation", "best epoch"]
    lines = [f"## {dataset.name}: {dataset.title}{_size(dataset, beside)}", ""]
    lines += table_head("network", *heads, align="lll")
    blanks = ["–"] * len(seeds)
    for cell in ("gated", "constant"):
        kinds = ("mean", "best of 5", "validation")
        printed = [SENTIMENT.get((cell, f"{dataset.name}, {kind}")) for kind in kinds]
        if any(printed):
            shown = [f"{p.value:.1f}" if p else "–" for p in printed]
            lines.append(table_row(f"{cell}, L17", "GloVe 840B, 300", "–", *blanks, *shown, "–"))
    for row in rows:
        figures = seed_cells(row.runs, seeds, lambda m: f"{100 * m['test']['accuracy']:.2f}")
        vectors = f"`{row.vectors}`" if row.vectors else "none"
        lines.append(
            table_row(row.cell, vectors, f"`{row.preset}`", *figures, *_over_seeds(row.runs))
        )
    for baseline in beside["baselines"] if beside else ():
        figure = f"{100 * baseline['accuracy']:.2f}"
        lines.append(table_row(baseline["name"], "–", "–", *blanks, figure, "–", "–", "–"))
    return lines


def _size(dataset: DataSet, beside: dict[str, Any] | None) -> str:
    sizes = tuple(beside["sizes"].values()) if beside else dataset.sizes
    if sizes == dataset.sizes:
        return ""
    ours, whole = (" / ".join(f"{n:,}" for n in counts) for counts in (sizes, dataset.sizes))
    return f" (a subset, not comparable with the paper: {ours} of {whole} texts)"


def _over_seeds(runs: dict[int, dict[str, Any]]) -> list[str]:
    """Return mean, best, validation and epochs of the seeds of a row."""
    tests = [run["test"] for run in runs.values()]
    accuracies = [test["accuracy"] for test in tests]
    valid = [100 * run["valid"]["valid_accuracy"] for run in runs.values()]
    return [
        mean_accuracy(accuracies, tests[0]["accuracy_interval"]),
        f"{100 * max(accuracies):.2f}",
        f"{statistics.mean(valid):.2f}",
        ", ".join(f"{r['best_epoch']:.0f} of {r['epochs']:.0f}" for r in runs.values()),
    ]
