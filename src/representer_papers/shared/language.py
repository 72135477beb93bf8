"""The language models of a table: texts, variants, budgets, and how one is run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import DataError
from representer.options.language import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.shared import tables
from representer_papers.shared.datasets import part_of, wanted

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
    measure = tables.Measure(
        recipe, "test perplexity", _test, "epochs",
        planned=lambda settings: settings["options"]["epochs"], curve="valid_perplexity",
    )  # fmt: skip
    folders, lines = locate_texts(request, tuple(variants)), []
    for name, folder in folders.items():
        named = {variant.name: variant for variant in variants[name]}
        settings = partial(_settings, request, named)
        rows = [row for row in named if row in default]
        runs = tables.runs_of(request, request.out / name, rows, settings)
        train = partial(_train, request.threads)
        tables.run_missing(request, measure, runs, lambda folder=folder: folder, train)
    for name in folders:
        stored = tables.by_seed(request.out / name, "variant")
        begun = {  # unfinished runs are shown, too
            row.name: {s: run for s, run in stored.get(row.name, {}).items() if _log(run)}
            for row in variants[name]
        }
        if any(begun.values()):
            lines += _section(name, variants[name], begun, orders)
            _draw(request.out / f"{name}.svg", variants[name], begun)
            lines += ["", f"![Validation perplexity by epoch]({name}.svg)"]
    return tables.write_page(request, *page, lines)


def _settings(
    request: Request, named: Mapping[str, Variant], name: str, seed: int
) -> dict[str, Any]:
    options = shortened(named[name].options, request.budget)
    if request.smoke:
        options |= {"hidden_size": 8, "embedding_size": 8, "epochs": 1, "batch_size": 2}
    return {"variant": name, "budget": request.budget, "seed": seed, "options": options}


def _train(threads: int, run: RunFolder, described: dict[str, Any], data: Path) -> None:
    from representer.tasks.language import FLOW

    config = LanguageConfig(
        data=str(data), out=str(run.path), seed=described["seed"], threads=threads,
        resume=run.resume, **described["options"],
    )  # fmt: skip
    FLOW.report(run, FLOW.train(run, config, FLOW.prepare(config)))


Runs = dict[str, dict[int, tables.Stored]]


def _log(run: tables.Stored) -> list[dict[str, Any]]:
    return tables.log_of(run.folder)


def _section(
    text: str, variants: Sequence[Variant], runs: Runs, orders: Sequence[Sequence[str]]
) -> list[str]:
    seeds = tables.seeds_of(runs)
    heads = ["parameters", "paper", *(f"seed {seed}" for seed in seeds), "mean", "validation"]
    rows = [_row(text, v, runs[v.name], seeds) for v in variants if runs[v.name]]
    lines = ["", f"## {TEXTS[text]}"]
    lines += tables.rows_of(["model", *heads, "epochs"], rows, f"l{'r' * len(heads)}l")
    finished = {
        name: {seed: -_test(run.metrics) for seed, run in of_row.items() if run.metrics}
        for name, of_row in runs.items()
        if of_row and all(run.metrics for run in of_row.values())
    }
    for order in orders:
        names = [name for name in order if name in finished]
        paper = {name: -float(rank) for rank, name in enumerate(names)}
        ours = {name: finished[name] for name in names}
        lines += tables.order_lines("Lowest perplexity first", paper, ours)
    # the n-gram baselines are the same for all finished runs
    every = [run.metrics for of_row in runs.values() for run in of_row.values() if run.metrics]
    if every and (baselines := every[0]["baselines"]):
        shown = ", ".join(f"{row['name']} {row['perplexity']:.1f}" for row in baselines)
        lines += ["", f"n-gram baselines on the same text: {shown}."]
    return lines


def _row(
    text: str, variant: Variant, runs: dict[int, tables.Stored], seeds: Sequence[int]
) -> tuple[str, ...]:
    metrics = {seed: run.metrics for seed, run in runs.items()}
    done = [figures for figures in metrics.values() if figures]
    logs = [(run.settings, _log(run)) for run in runs.values()]
    best = [min(row["valid_perplexity"] for row in log) for _, log in logs]
    epochs = {
        f"{log[-1]['epoch']} of {s['options']['epochs']} (budget {s['budget']:g})"
        for s, log in logs
    }
    paper = variant.paper.get(text)
    return (
        variant.title,
        f"{done[0]['parameters']['all']:,}" if done else "–",
        f"{paper:.1f}" if paper else "–",
        *tables.seed_cells(metrics, seeds, lambda figures: f"{_test(figures):.2f}"),
        tables.mean([_test(figures) for figures in done], 2),
        f"{statistics.mean(best):.2f}",
        ", ".join(sorted(epochs)),
    )


def _test(metrics: Mapping[str, Any]) -> float:
    return metrics["test"]["perplexity"]


def _draw(path: Path, variants: Sequence[Variant], runs: Runs) -> None:
    """Plot the validation perplexity of every run by epoch, with one color per variant."""
    between = (math.nan, math.nan)  # a gap between the seeds
    lines = {
        variant.title: [
            (row["epoch"], row["valid_perplexity"]) if row else between
            for run in runs[variant.name].values()
            for row in (*_log(run), None)
        ]
        for variant in variants
    }
    drawing = {"title": "", "lines": lines, "marks": True, "log": "y", "xlabel": "epoch",
               "ylabel": "validation perplexity per token"}  # fmt: skip
    title = "Validation perplexity by epoch"
    tables.panels(path, [drawing], columns=1, title=title, size=(7.2, 4.0))
