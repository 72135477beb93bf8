"""The table of document classification: the paper's figures beside ours, with our settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Request
from representer_papers.rkm2019.datasets import DataSet, Located
from representer_papers.rkm2019.published import DOCUMENTS, ROWS, column_name
from representer_papers.shared.order import order_lines
from representer_papers.shared.table import (
    mean_accuracy,
    metrics_by_seed,
    seed_cells,
    table_head,
    table_row,
    write_page,
)

_ABOUT = (
    "Test accuracy at the best validation accuracy. Ours: mean ± standard deviation over",
    "seeds, or one run with its 95 % interval (Wilson); then the number of training steps",
    "with 16 documents each (the original: 40,001).",
)
Runs = dict[tuple[str, int], dict[int, dict[str, Any]]]  # metrics by cell and length, then seed


def write_table(request: Request, places: Sequence[Located]) -> Path:
    """Write ``table.md`` from the finished runs of the requested seeds, and return its path."""
    lines = [line for place in places for line in ("", *_section(request, place.dataset))]
    settings = f"Settings: preset `{request.preset}`, word vectors `{request.vectors or 'none'}`."
    title = "L19 Table 2: document classification, test accuracy in %"
    return write_page(request, title, [settings, *_ABOUT], lines)


def _section(request: Request, dataset: DataSet) -> list[str]:
    seeds, folder = request.seeds, request.out / dataset.name
    paths = [folder / f"baselines-seed{seed}.json" for seed in seeds]
    baselines = [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]
    if not baselines:
        return [f"## {dataset.title} (not run)"]
    runs: Runs = {
        key: {seed: own[seed] for seed in seeds if seed in own}
        for key, own in metrics_by_seed(folder, "cell", "filter_length").items()
    }
    sizes = baselines[0]["sizes"]
    train, test = sizes["train"] + sizes["valid"], sizes["test"]
    is_whole = (train, test) == (dataset.train_rows, dataset.test_rows)
    size = (
        f"{train:,} of {dataset.train_rows:,} training and {test:,} of {dataset.test_rows:,} test"
    )
    note = "full set" if is_whole else f"a subset, not comparable with the paper: {size} documents"
    lengths = sorted({n for (_, n), own in runs.items() if own}) or [1, 3]
    heads = [f"{n}-gram, {who}" for n in lengths for who in ("paper", "ours")]
    lines = [f"## {dataset.title} ({note})", "", *table_head("model", *heads)]
    for name, cell in ROWS.items():
        cells = []
        for n in lengths:
            reported = DOCUMENTS.get((name, column_name(dataset.name, n)))
            cells.append(f"{reported.value:.2f}" if reported else "–")
            cells.append(_ours(list(runs.get((cell, n), {}).values())))
        lines.append(table_row(name, *cells))
    for at, baseline in enumerate(baselines[0]["baselines"]):
        accuracies = [of_seed["baselines"][at]["accuracy"] for of_seed in baselines]
        shown = _accuracy(accuracies, baseline["accuracy_interval"])
        lines.append(table_row(baseline["name"], *["–", shown] * len(lengths)))
    for n in lengths:
        lines += _order(seeds, dataset.name, n, runs)
        lines += _by_seed(seeds, n, runs)
    return lines


def _by_seed(seeds: Sequence[int], n: int, runs: Runs) -> list[str]:
    """Return the accuracies of every seed, whose cells share one split of the documents."""
    found = {name: runs.get((cell, n), {}) for name, cell in ROWS.items()}
    if len(seeds) == 1 or not any(found.values()):
        return []
    lines = ["", *table_head(f"{n}-gram, by seed", *(f"seed {seed}" for seed in seeds))]
    for name, own in found.items():
        if own:
            lines.append(table_row(name, *seed_cells(own, seeds, _percent)))
    return lines


def _percent(metrics: dict[str, Any]) -> str:
    return f"{100 * metrics['test']['accuracy']:.2f}"


def _order(seeds: Sequence[int], dataset: str, n: int, runs: Runs) -> list[str]:
    """Return the comparison of the cells' order with the paper's."""
    paper: dict[str, float] = {}
    ours: dict[str, dict[int, float]] = {}
    for name, cell in ROWS.items():
        if reported := DOCUMENTS.get((name, column_name(dataset, n))):
            paper[name] = reported.value
        own = runs.get((cell, n), {})
        if len(own) == len(seeds):
            ours[name] = {seed: metrics["test"]["accuracy"] for seed, metrics in own.items()}
    return order_lines(f"{n}-gram", paper, ours)


def _ours(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    accuracies = [run["test"]["accuracy"] for run in runs]
    figure = _accuracy(accuracies, runs[0]["test"]["accuracy_interval"])
    steps = " / ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    return f"{figure}, {steps} steps"


def _accuracy(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    seeds = f" ({len(accuracies)} seeds)" if len(accuracies) > 1 else ""
    return f"{mean_accuracy(accuracies, interval)}{seeds}"
