"""The table of language models: perplexities by seed beside the paper's, and learning curves."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.shared.language import DataSet, Variant
from representer_papers.shared.order import order_lines
from representer_papers.shared.runs import stored
from representer_papers.shared.table import mean, table_head, table_row, write_page

Runs = dict[str, dict[int, dict[str, Any]]]


def write_language_table(
    request: Request,
    page: tuple[str, Sequence[str]],
    datasets: Sequence[DataSet],
    variants: Sequence[Variant],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Write ``table.md`` from all runs of the folder, unfinished ones included.

    Args:
        request: The request.
        page: Title of the page and lines below it.
        datasets: Each gets a section if it has runs.
        variants: Each gets a row if it has runs.
        orders: Names of variants in the order in which the paper ranks them, best first.

    Returns:
        The path of the page; each section has a figure ``DATASET.svg`` beside it.
    """
    lines = []
    for dataset in datasets:
        runs = _runs(request.out / dataset.name, variants)
        if any(runs.values()):
            lines += ["", *_section(dataset, variants, runs, orders)]
            write_curves(request.out / f"{dataset.name}.svg", variants, runs)
            lines += ["", f"![Validation perplexity by epoch]({dataset.name}.svg)"]
    return write_page(request, *page, lines)


def _runs(folder: Path, variants: Sequence[Variant]) -> Runs:
    """Return the settings of each run, its log, and its figures if it is finished."""
    runs: Runs = {variant.name: {} for variant in variants}
    for path, settings, metrics in stored(folder):
        log = path / "metrics.jsonl"
        if settings["variant"] in runs and log.exists():
            rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
            described = {**settings, "rows": rows, "metrics": metrics}
            runs[settings["variant"]][settings["seed"]] = described
    return runs


def _section(
    dataset: DataSet, variants: Sequence[Variant], runs: Runs, orders: Sequence[Sequence[str]]
) -> list[str]:
    seeds = sorted({seed for by_seed in runs.values() for seed in by_seed})
    heads = ["parameters", "paper", *(f"seed {seed}" for seed in seeds), "mean", "validation"]
    lines = [
        f"## {dataset.title}",
        "",
        *table_head("model", *heads, "epochs", align=f"l{'r' * len(heads)}l"),
    ]
    shown = [variant for variant in variants if runs[variant.name]]
    lines += [_row(dataset, variant, runs[variant.name], seeds) for variant in shown]
    finished = {
        name: {seed: -_test(run) for seed, run in by_seed.items()}
        for name, by_seed in runs.items()
        if by_seed and all(run["metrics"] for run in by_seed.values())
    }
    for order in orders:
        names = [name for name in order if name in finished]
        paper = {name: -float(place) for place, name in enumerate(names)}
        ours = {name: finished[name] for name in names}
        compared = order_lines("Lowest perplexity first", paper, ours)
        lines += ["", *compared] if compared else []
    return lines + _baselines(runs)


def _row(dataset: DataSet, variant: Variant, runs: Mapping[int, Any], seeds: Sequence[int]) -> str:
    done = [run for run in runs.values() if run["metrics"]]
    best = [min(row["valid_perplexity"] for row in run["rows"]) for run in runs.values()]
    epochs = sorted({_epochs(run) for run in runs.values()})
    paper = variant.paper.get(dataset.name)
    return table_row(
        variant.title,
        f"{done[0]['metrics']['parameters']['all']:,}" if done else "–",
        f"{paper:.1f}" if paper else "–",
        *(_cell(runs.get(seed)) for seed in seeds),
        mean([_test(run) for run in done], 2),
        f"{statistics.mean(best):.2f}",
        ", ".join(epochs),
    )


def _cell(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return "not run"
    return f"{_test(run):.2f}" if run["metrics"] else "running"


def _test(run: Mapping[str, Any]) -> float:
    return run["metrics"]["test"]["perplexity"]


def _epochs(run: Mapping[str, Any]) -> str:
    reached, planned = run["rows"][-1]["epoch"], run["options"]["epochs"]
    return f"{reached} of {planned} (budget {run['budget']:g})"


def _baselines(runs: Runs) -> list[str]:
    """Return the n-gram baselines of the first finished run; they are the same for all."""
    for by_seed in runs.values():
        for run in by_seed.values():
            if run["metrics"]:
                rows = run["metrics"]["baselines"]
                shown = ", ".join(f"{row['name']} {row['perplexity']:.1f}" for row in rows)
                return ["", f"n-gram baselines on the same text: {shown}."] if shown else []
    return []


def write_curves(path: Path, variants: Sequence[Variant], runs: Runs) -> None:
    """Plot the validation perplexity of every run by epoch, with one color per variant."""
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for number, variant in enumerate(variants):
        for label, run in enumerate(runs[variant.name].values()):
            points = [(row["epoch"], row["valid_perplexity"]) for row in run["rows"]]
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
