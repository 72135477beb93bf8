"""The table of language models: perplexities by seed beside the paper's, and learning curves."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.shared.language import TEXTS, Variant
from representer_papers.shared.order import order_lines
from representer_papers.shared.runs import Stored
from representer_papers.shared.table import (
    by_seed,
    mean,
    seed_cells,
    seeds_of,
    table_head,
    table_row,
    write_page,
)

Runs = dict[str, dict[int, Stored]]


def write_language_table(
    request: Request,
    page: tuple[str, Sequence[str]],
    variants: Mapping[str, Sequence[Variant]],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Write ``table.md`` from all runs of the folder, unfinished ones included.

    Args:
        request: The request.
        page: Title of the page and lines below it.
        variants: The rows of each text; those without runs are omitted.
        orders: Names of variants in the order in which the paper ranks them, best first.

    Returns:
        The path of the page; each section has a figure ``TEXT.svg`` beside it.
    """
    lines = []
    for text, rows in variants.items():
        found = by_seed(request.out / text, "variant")
        runs: Runs = {row.name: _with_log(found.get(row.name, {})) for row in rows}
        if any(runs.values()):
            lines += ["", *_section(text, rows, runs, orders)]
            write_curves(request.out / f"{text}.svg", rows, runs)
            lines += ["", f"![Validation perplexity by epoch]({text}.svg)"]
    return write_page(request, *page, lines)


def _with_log(runs: dict[int, Stored]) -> dict[int, Stored]:
    return {seed: run for seed, run in runs.items() if (run.folder / "metrics.jsonl").exists()}


def _log(run: Stored) -> list[dict[str, Any]]:
    lines = (run.folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _section(
    text: str, variants: Sequence[Variant], runs: Runs, orders: Sequence[Sequence[str]]
) -> list[str]:
    seeds = seeds_of(runs)
    heads = ["parameters", "paper", *(f"seed {seed}" for seed in seeds), "mean", "validation"]
    lines = [
        f"## {TEXTS[text]}",
        "",
        *table_head("model", *heads, "epochs", align=f"l{'r' * len(heads)}l"),
    ]
    lines += [_row(text, v, runs[v.name], seeds) for v in variants if runs[v.name]]
    finished = {
        name: {seed: -_test(run.metrics) for seed, run in of_row.items() if run.metrics}
        for name, of_row in runs.items()
        if of_row and all(run.metrics for run in of_row.values())
    }
    for order in orders:
        names = [name for name in order if name in finished]
        paper = {name: -float(place) for place, name in enumerate(names)}
        ours = {name: finished[name] for name in names}
        lines += order_lines("Lowest perplexity first", paper, ours)
    return lines + _baselines(runs)


def _row(text: str, variant: Variant, runs: dict[int, Stored], seeds: Sequence[int]) -> str:
    metrics = {seed: run.metrics for seed, run in runs.items()}
    done = [figures for figures in metrics.values() if figures]
    logs = {seed: _log(run) for seed, run in runs.items()}
    best = [min(row["valid_perplexity"] for row in log) for log in logs.values()]
    epochs = sorted({_epochs(run.settings, logs[seed]) for seed, run in runs.items()})
    paper = variant.paper.get(text)
    return table_row(
        variant.title,
        f"{done[0]['parameters']['all']:,}" if done else "–",
        f"{paper:.1f}" if paper else "–",
        *seed_cells(metrics, seeds, lambda figures: f"{_test(figures):.2f}"),
        mean([_test(figures) for figures in done], 2),
        f"{statistics.mean(best):.2f}",
        ", ".join(epochs),
    )


def _test(metrics: Mapping[str, Any]) -> float:
    return metrics["test"]["perplexity"]


def _epochs(settings: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> str:
    reached, planned = log[-1]["epoch"], settings["options"]["epochs"]
    return f"{reached} of {planned} (budget {settings['budget']:g})"


def _baselines(runs: Runs) -> list[str]:
    """Return the n-gram baselines of the first finished run; they are the same for all."""
    for of_row in runs.values():
        for run in of_row.values():
            if run.metrics:
                rows = run.metrics["baselines"]
                shown = ", ".join(f"{row['name']} {row['perplexity']:.1f}" for row in rows)
                return ["", f"n-gram baselines on the same text: {shown}."] if shown else []
    return []


def write_curves(path: Path, variants: Sequence[Variant], runs: Runs) -> None:
    """Plot the validation perplexity of every run by epoch, with one color per variant."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for number, variant in enumerate(variants):
        for label, run in enumerate(runs[variant.name].values()):
            points = [(row["epoch"], row["valid_perplexity"]) for row in _log(run)]
            axes.plot(
                *zip(*points, strict=True), "-o", markersize=3, color=f"C{number}",
                label=variant.title if not label else None,
            )  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation perplexity per token")
    axes.locator_params(axis="x", integer=True)
    axes.grid(which="both", alpha=0.3, linewidth=0.7)
    axes.legend(frameon=False)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    atomic.write_text(path, drawn.getvalue())
