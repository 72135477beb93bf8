"""The language models of a table: texts, variants, budgets, and how one is run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import DataError
from representer.tasks.language.language_task import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import wanted

if TYPE_CHECKING:
    from representer.storage.run_folder import RunFolder

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


def locate(request: Request, names: Sequence[str]) -> dict[str, Path]:
    """Return the folders of the requested texts, out of those of the recipe.

    Raises:
        ArgumentError: If a name is unknown.
        DataError: If a folder or one of its parts is missing.
    """
    from representer.data.language import find_parts

    folders = {}
    for name in wanted(request.data, request.datasets, {name: name for name in names}):
        folder = request.data / name
        if not folder.is_dir():
            fix = f"Put its train, valid and test files into {name}/ below --data."
            raise DataError("there is no such folder", file=folder, fix=fix)
        find_parts(folder)
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


def reproduce(
    request: Request,
    recipe: str,
    page: tuple[str, Sequence[str]],
    variants: Mapping[str, Sequence[Variant]],
    default: Collection[str],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Run the missing models of a table in ``OUT/TEXT/VARIANT-seedK``, and write it.

    Args:
        request: The request.
        recipe: Name of the recipe.
        page: Title of the page and lines below it.
        variants: The rows with the settings for each text.
        default: Names of the rows that run by default.
        orders: Names of rows in the order in which the paper ranks them, best first.
    """
    from representer_papers.shared.language_table import write_language_table
    from representer_papers.shared.lines import Measure
    from representer_papers.shared.runs import Run, run_missing

    measure = Measure(
        recipe, "test perplexity", lambda metrics: metrics["test"]["perplexity"], "epochs",
        planned=lambda settings: settings["options"]["epochs"],
    )  # fmt: skip
    folders = locate(request, tuple(variants))
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
    from representer.tasks.language.language_fit import fit_in

    config = LanguageConfig(
        data=str(data), out=str(run.path), seed=described["seed"], threads=threads,
        resume=run.resume, **described["options"],
    )  # fmt: skip
    fit_in(run, config)
