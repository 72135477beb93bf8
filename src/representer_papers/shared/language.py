"""The language models of a table: texts, variants, budgets, and how one is run."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import DataError
from representer.options.language import LanguageConfig
from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import part_of, wanted
from representer_papers.shared.runs import Measure, Run, Stored, run_missing
from representer_papers.shared.table import (
    by_seed,
    mean,
    order_lines,
    seed_cells,
    seeds_of,
    table_head,
    table_row,
    write_page,
)

if TYPE_CHECKING:
    from representer.storage.run import RunFolder

TEXTS = {"ptb": "Penn Treebank", "wikitext-2": "WikiText-2"}
"""Titles of the texts by the name of their folder."""
FULL_RATE, LAST_RATE = 0.4, 0.02


@dataclass(frozen=True)
class Variant:
    """A row of a table."""

    name: str  # for --cells
    title: str
    options: Mapping[str, Any]  # fields of LanguageConfig that differ from its defaults
    paper: Mapping[str, float] = field(default_factory=dict)  # test perplexity by text


def locate_texts(request: Request, names: Sequence[str]) -> dict[str, Path]:
    """Return the folders of the requested texts, out of those of the recipe.

    A smoke run has some lines of each part, in a folder of its output.

    Raises:
        ArgumentError: If a name is unknown.
    """
    from representer.data.language import find_parts

    folders = {}
    for name in wanted(request.data, request.datasets, {name: name for name in names}):
        folder = request.data / name
        if not folder.is_dir():
            fix = f"Put its train, valid and test files into {name}/ below --data."
            raise DataError("there is no such folder", file=folder, fix=fix)
        parts = find_parts(folder)
        if request.smoke:
            folder = request.out / "data" / name
            for path in parts.values():
                part_of(path, folder)
        folders[name] = folder
    return folders


def shortened(options: Mapping[str, Any], budget: float) -> dict[str, Any]:
    """Return options for a fraction of the epochs.

    A learning rate with a decay keeps its initial value for 40 % of the epochs and then decays to a
    fiftieth of it by a constant factor. The original schedule, cut off early, would end at a high
    rate.
    """
    if budget == 1:
        return dict(options)
    epochs = max(1, round(options["epochs"] * budget))
    shorter = {**options, "epochs": epochs, "patience": 0}
    if options.get("lr_decay", 1.0) != 1.0:
        start = max(1, round(FULL_RATE * epochs))
        shorter["lr_decay_from"] = start
        shorter["lr_decay"] = round(LAST_RATE ** (1 / max(1, epochs - start)), 6)
    return shorter


def reproduce_texts(
    request: Request,
    recipe: str,
    page: tuple[str, Sequence[str]],
    variants: Mapping[str, Sequence[Variant]],
    default: Collection[str],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Run the missing models of a table in ``OUT/TEXT/VARIANT-seedK``, and write it."""
    measure = Measure(
        recipe, "test perplexity", lambda metrics: metrics["test"]["perplexity"], "epochs",
        planned=lambda settings: settings["options"]["epochs"], curve="valid_perplexity",
    )  # fmt: skip
    folders = locate_texts(request, tuple(variants))
    for name, folder in folders.items():
        rows = [v for v in variants[name] if v.name in (request.cells or default)]
        runs = [
            Run(request.out / name / f"{row.name}-seed{seed}", _settings(request, row, seed))
            for seed in request.seeds
            for row in rows
        ]
        train = partial(_train, request.threads)
        run_missing(request, measure, runs, lambda folder=folder: folder, train)
    shown = {name: variants[name] for name in folders}
    return write_language_table(request, page, shown, orders)


def _settings(request: Request, variant: Variant, seed: int) -> dict[str, Any]:
    options = shortened(variant.options, request.budget)
    if request.smoke:
        options |= {"hidden_size": 8, "embedding_size": 8, "epochs": 1, "batch_size": 2}
    described = {"variant": variant.name, "budget": request.budget, "seed": seed}
    return {**described, "options": options}


def _train(threads: int, run: RunFolder, described: dict[str, Any], data: Path) -> None:
    from representer.tasks.language import FLOW

    config = LanguageConfig(
        data=str(data), out=str(run.path), seed=described["seed"], threads=threads,
        resume=run.resume, **described["options"],
    )  # fmt: skip
    FLOW.report(run, FLOW.train(run, config, FLOW.prepare(config)))


Runs = dict[str, dict[int, Stored]]


def write_language_table(
    request: Request,
    page: tuple[str, Sequence[str]],
    variants: Mapping[str, Sequence[Variant]],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Write ``table.md`` from all runs of the folder, unfinished ones included.

    Returns:
        The path of the page; each section has a figure ``TEXT.svg`` beside it.
    """
    lines = []
    for text, rows in variants.items():
        stored = by_seed(request.out / text, "variant")
        runs: Runs = {row.name: _with_log(stored.get(row.name, {})) for row in rows}
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
        paper = {name: -float(rank) for rank, name in enumerate(names)}
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
