"""The table of document classification: the paper's figures beside ours, with our settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.rkm2019.datasets import Located
from representer_papers.rkm2019.table2 import REPORTED, ROWS, column_name
from representer_papers.shared.order import order_lines
from representer_papers.shared.table import heading, smoke_warning, spread

STEPS = 40_001  # steps of 16 documents in the released code


@dataclass
class Results:
    """Results of finished runs.

    Attributes:
        runs: metrics.json by (data set, cell, filter length, seed).
        baselines: Figures of the baselines by (data set, seed).
    """

    runs: dict[tuple[str, str, int, int], dict[str, Any]] = field(default_factory=dict)
    baselines: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)


def write_table(request: Request, places: Sequence[Located], results: Results) -> Path:
    """Write ``table.md`` into the output folder, and return its path."""
    lines = [
        *heading("L19 Table 2: document classification, test accuracy in %", request),
        f"Settings: preset `{request.preset}`, word vectors `{request.vectors or 'none'}`.",
        "Test accuracy at the best validation accuracy. Ours: mean ± standard deviation over",
        "seeds, or one run with its 95 % interval (Wilson); then the number of training steps",
        f"with 16 documents each (the original: {STEPS:,}).",
        *smoke_warning(request),
    ]
    for place in places:
        lines += ["", *_section(request, place, results)]
    path = request.out / "table.md"
    atomic.write_text(path, "\n".join(lines) + "\n")
    return path


def _section(request: Request, place: Located, results: Results) -> list[str]:
    dataset, seeds = place.dataset, request.seeds
    baselines = [results.baselines.get((dataset.name, seed)) for seed in seeds]
    baselines = [of_seed for of_seed in baselines if of_seed is not None]
    if not baselines:
        return [f"## {dataset.title} (not run)"]
    sizes = baselines[0]["sizes"]
    train, test = sizes["train"] + sizes["valid"], sizes["test"]
    is_whole = (train, test) == (dataset.train_rows, dataset.test_rows)
    size = (
        f"{train:,} of {dataset.train_rows:,} training and {test:,} of {dataset.test_rows:,} test"
    )
    note = "full set" if is_whole else f"a subset, not comparable with the paper: {size} documents"
    lengths = sorted({n for _, _, n, _ in results.runs}) or [1, 3]
    heads = [f"{n}-gram, {who}" for n in lengths for who in ("paper", "ours")]
    lines = [f"## {dataset.title} ({note})", "", "| model | " + " | ".join(heads) + " |"]
    lines.append("|---|" + "---:|" * len(heads))
    for row, cell in ROWS.items():
        cells = []
        for n in lengths:
            reported = REPORTED.get((row, column_name(dataset.name, n)))
            cells.append(f"{reported.value:.2f}" if reported else "–")
            runs = [results.runs.get((dataset.name, cell, n, seed)) for seed in seeds]
            cells.append(_ours([run for run in runs if run is not None]))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    for at, baseline in enumerate(baselines[0]["baselines"]):
        accuracies = [of_seed["baselines"][at]["accuracy"] for of_seed in baselines]
        shown = spread(accuracies, baseline["accuracy_interval"])
        lines.append(f"| {baseline['name']} | " + " | ".join(["–", shown] * len(lengths)) + " |")
    for n in lengths:
        lines += _order(request, dataset.name, n, results)
    return lines


def _order(request: Request, name: str, n: int, results: Results) -> list[str]:
    """Return the comparison of the cells' order with the paper's, after an empty line."""
    paper: dict[str, float] = {}
    ours: dict[str, dict[int, float]] = {}
    for row, cell in ROWS.items():
        if reported := REPORTED.get((row, column_name(name, n))):
            paper[row] = reported.value
        runs = {seed: results.runs.get((name, cell, n, seed)) for seed in request.seeds}
        if None not in runs.values():
            ours[row] = {s: run["test"]["accuracy"] for s, run in runs.items() if run is not None}
    lines = order_lines(f"{n}-gram", paper, ours)
    return ["", *lines] if lines else []


def _ours(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    figure = spread([r["test"]["accuracy"] for r in runs], runs[0]["test"]["accuracy_interval"])
    steps = " / ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    return f"{figure}, {steps} steps"
