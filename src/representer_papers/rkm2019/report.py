"""The table of document classification: the paper's figures beside ours, with our settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Request
from representer_papers.rkm2019.datasets import DataSet, Located
from representer_papers.rkm2019.table2 import REPORTED, ROWS, column_name
from representer_papers.shared.order import order_lines
from representer_papers.shared.runs import stored
from representer_papers.shared.table import spread, table_head, table_row, write_page

STEPS = 40_001  # steps of 16 documents in the released code


_ABOUT = (
    "Test accuracy at the best validation accuracy. Ours: mean ± standard deviation over",
    "seeds, or one run with its 95 % interval (Wilson); then the number of training steps",
    f"with 16 documents each (the original: {STEPS:,}).",
)
Runs = dict[tuple[str, int, int], dict[str, Any]]  # metrics by cell, filter length and seed


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
        (s["cell"], s["filter_length"], s["seed"]): metrics
        for _, s, metrics in stored(folder)
        if metrics is not None and s["seed"] in seeds
    }
    sizes = baselines[0]["sizes"]
    train, test = sizes["train"] + sizes["valid"], sizes["test"]
    is_whole = (train, test) == (dataset.train_rows, dataset.test_rows)
    size = (
        f"{train:,} of {dataset.train_rows:,} training and {test:,} of {dataset.test_rows:,} test"
    )
    note = "full set" if is_whole else f"a subset, not comparable with the paper: {size} documents"
    lengths = sorted({n for _, n, _ in runs}) or [1, 3]
    heads = [f"{n}-gram, {who}" for n in lengths for who in ("paper", "ours")]
    lines = [f"## {dataset.title} ({note})", "", *table_head("model", *heads)]
    for name, cell in ROWS.items():
        cells = []
        for n in lengths:
            reported = REPORTED.get((name, column_name(dataset.name, n)))
            cells.append(f"{reported.value:.2f}" if reported else "–")
            cells.append(_ours([runs[cell, n, s] for s in seeds if (cell, n, s) in runs]))
        lines.append(table_row(name, *cells))
    for at, baseline in enumerate(baselines[0]["baselines"]):
        accuracies = [of_seed["baselines"][at]["accuracy"] for of_seed in baselines]
        shown = spread(accuracies, baseline["accuracy_interval"])
        lines.append(table_row(baseline["name"], *["–", shown] * len(lengths)))
    for n in lengths:
        lines += _order(seeds, dataset.name, n, runs)
    return lines


def _order(seeds: Sequence[int], dataset: str, n: int, runs: Runs) -> list[str]:
    """Return the comparison of the cells' order with the paper's, after an empty line."""
    paper: dict[str, float] = {}
    ours: dict[str, dict[int, float]] = {}
    for name, cell in ROWS.items():
        if reported := REPORTED.get((name, column_name(dataset, n))):
            paper[name] = reported.value
        if all((cell, n, seed) in runs for seed in seeds):
            ours[name] = {seed: runs[cell, n, seed]["test"]["accuracy"] for seed in seeds}
    lines = order_lines(f"{n}-gram", paper, ours)
    return ["", *lines] if lines else []


def _ours(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    figure = spread([r["test"]["accuracy"] for r in runs], runs[0]["test"]["accuracy_interval"])
    steps = " / ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    return f"{figure}, {steps} steps"
