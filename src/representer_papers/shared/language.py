"""The language models of a table: texts, variants, budgets, and how one is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from representer.data.language import find_parts
from representer.errors import DataError
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import wanted
from representer_papers.shared.runs import Run, run_missing

FULL_RATE, LAST_RATE = 0.4, 0.02


@dataclass(frozen=True)
class DataSet:
    """A text and its published sizes.

    Attributes:
        name: Name on the command line and of the folder.
        title: Title in the table.
        vocabulary: Number of distinct tokens in the training part.
        tokens: Number of tokens in train, valid and test, ends of lines included.
    """

    name: str
    title: str
    vocabulary: int
    tokens: tuple[int, int, int]


DATASETS = {
    "ptb": DataSet("ptb", "Penn Treebank", 10_000, (929_589, 73_760, 82_430)),
    "wikitext-2": DataSet("wikitext-2", "WikiText-2", 33_278, (2_088_628, 217_646, 245_569)),
}


@dataclass(frozen=True)
class Variant:
    """A row of a table.

    Attributes:
        name: Name for ``--cells``.
        title: Title in the table.
        options: Fields of `LanguageConfig` that differ from its defaults.
        paper: The paper's test perplexity by data set.
    """

    name: str
    title: str
    options: Mapping[str, Any]
    paper: Mapping[str, float] = field(default_factory=dict)


def locate(request: Request, names: Sequence[str]) -> list[tuple[DataSet, Path]]:
    """Return the requested data sets with their folders.

    Args:
        request: The request.
        names: Names of the recipe's data sets.

    Raises:
        ArgumentError: If a name is unknown.
        DataError: If a folder or one of its parts is missing.
    """
    places = []
    for dataset in wanted(request.data, request.datasets, {name: DATASETS[name] for name in names}):
        folder = request.data / dataset.name
        if not folder.is_dir():
            fix = f"Put its train, valid and test files into {dataset.name}/ below --data."
            raise DataError("there is no such folder", file=folder, fix=fix)
        find_parts(folder)
        places.append((dataset, folder))
    return places


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
    page: tuple[str, Sequence[str]],
    datasets: Sequence[str],
    variants: Callable[[str], Sequence[Variant]],
    default: Collection[str],
    orders: Sequence[Sequence[str]],
) -> Path:
    """Run the missing models of a table in ``OUT/DATASET/VARIANT-seedK``, and write it.

    Args:
        request: The request.
        page: Title of the page and lines below it.
        datasets: Names of the recipe's texts.
        variants: Function that returns the rows with the settings for a text.
        default: Names of the rows that run by default.
        orders: Names of rows in the order in which the paper ranks them, best first.
    """
    from representer_papers.shared.language_table import write_language_table

    places = locate(request, datasets)
    for dataset, folder in () if request.table_only else places:
        rows = [v for v in variants(dataset.name) if v.name in (request.cells or default)]
        runs = [
            Run(
                request.out / dataset.name / f"{row.name}-seed{seed}", _settings(request, row, seed)
            )
            for seed in request.seeds
            for row in rows
        ]
        run_missing(runs, lambda folder=folder: folder, partial(_train, request.threads))
    shown = [dataset for dataset, _ in places]
    return write_language_table(request, page, shown, variants(datasets[0]), orders)


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
