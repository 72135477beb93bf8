"""Run the language models of a table: variants, budgets, finished and interrupted runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from representer.data.language import find_parts
from representer.errors import ArgumentError, DataError, RunFolderError, TrainingError
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import wanted

CONFIG = "recipe.json"
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


def chosen(request: Request, variants: Sequence[Variant]) -> list[Variant]:
    """Return the requested variants.

    Raises:
        ArgumentError: If one is unknown, or an option is set that these tables do not support.
    """
    for name in ("filter_lengths", "vectors"):
        if getattr(request, name):
            raise ArgumentError(name, getattr(request, name), "nothing, for this recipe")
    known = {variant.name: variant for variant in variants}
    for name in request.cells:
        if name not in known:
            raise ArgumentError("cells", name, f"some of {', '.join(known)}")
    return [known[name] for name in request.cells] or list(variants)


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


def run_missing(
    request: Request, dataset: DataSet, folder: Path, variants: Sequence[Variant]
) -> None:
    """Run the missing models in ``OUT/DATASET/VARIANT-seedK``, seed by seed.

    Finished runs are kept, interrupted runs resume, and runs that another process is working on are
    skipped. If a variant diverges, the error is printed and the next one is run.

    Raises:
        ArgumentError: If a folder has a run with other settings.
        Interrupted: If a signal arrives; the same command resumes.
    """
    for seed in request.seeds:
        for variant in variants:
            out = request.out / dataset.name / f"{variant.name}-seed{seed}"
            options = shortened(variant.options, request.budget)
            if request.smoke:
                options |= {"hidden_size": 8, "embedding_size": 8, "epochs": 1, "batch_size": 2}
            described = {"variant": variant.name, "budget": request.budget, "seed": seed}
            described |= {"options": options}
            if not _is_done(out, described):
                config = LanguageConfig(
                    data=str(folder), out=str(out), seed=seed, threads=request.threads,
                    resume=out.exists(), **options,
                )  # fmt: skip
                _run(out, config, described)


def _is_done(out: Path, described: Mapping[str, Any]) -> bool:
    path = out / CONFIG
    if not path.exists():
        return False
    if json.loads(path.read_text("utf-8")) != json.loads(json.dumps(described)):
        hint = "Choose another --out, or the --budget and --smoke of the existing run."
        raise ArgumentError("out", str(out), "a run with these settings", hint=hint)
    return (out / "metrics.json").exists()


def _run(out: Path, config: LanguageConfig, described: Mapping[str, Any]) -> None:
    from representer.tasks.language.language_data import prepare
    from representer.tasks.language.language_fit import evaluate_and_report, train

    print(f"{out}:")
    try:
        data = prepare(config)
        with RunFolder(out, resume=out.exists()) as run:
            run.write_json(CONFIG, described)
            evaluate_and_report(run, data, train(run, config, data))
    except TrainingError as error:  # divergence of one model must not stop the others
        print(f"{out}: {error}")
    except RunFolderError as error:  # another process is working on it
        print(f"skipped: {error}")
