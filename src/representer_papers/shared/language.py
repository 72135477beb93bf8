"""Running the language models of a table: variants, budget, what is finished, what goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from representer.data.language import find_parts
from representer.errors import ArgumentError, DataError, RunFolderError, TrainingError
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.recipe import Request
from representer.tasks.storage.run_folder import RunFolder
from representer_papers.shared.datasets import wanted

CONFIG = "recipe.json"
FULL_RATE, LAST_RATE = 0.4, 0.02


@dataclass(frozen=True)
class DataSet:
    """A text and its customary figures.

    Attributes:
        name: Also of its folder.
        title: In the table.
        vocabulary: Different tokens of its training part.
        tokens: Of train, valid and test, each line with its end.
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
        name: What ``--cells`` calls it.
        title: In the table.
        options: Of `LanguageConfig`, where they are not its defaults.
        paper: The paper's test perplexity by data set.
    """

    name: str
    title: str
    options: Mapping[str, Any]
    paper: Mapping[str, float] = field(default_factory=dict)


def chosen(request: Request, variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants that are asked for.

    Raises:
        ArgumentError: If one is unknown, or something is chosen that these tables do not have.
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
    """Return the data sets that are asked for, with the folder of each.

    Args:
        request: Where they are, and which.
        names: Those of the recipe.

    Raises:
        ArgumentError: If a name is unknown.
        DataError: If a folder is not there, or a part is not in it.
    """
    found = []
    for dataset in wanted(request.data, request.datasets, {name: DATASETS[name] for name in names}):
        folder = request.data / dataset.name
        if not folder.is_dir():
            mend = f"Put its train, valid and test files into {dataset.name}/ of --data."
            raise DataError("there is no such folder", file=folder, mend=mend)
        find_parts(folder)
        found.append((dataset, folder))
    return found


def shortened(options: Mapping[str, Any], budget: float) -> dict[str, Any]:
    """Return options with a part of the epochs.

    A rate that falls by epochs keeps its first value for 40 % of them, and falls to a fiftieth of
    it in equal steps: the end of the original schedule has next to no rate, and a part of it would
    not come to rest.
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
    """Run what is not yet there: ``OUT/DATASET/VARIANT-seedK``, seed by seed.

    What is finished is not run again, what was interrupted goes on, and what another process is
    busy with is left to it. A variant that diverges is reported, and the next one is run.

    Raises:
        ArgumentError: If a folder holds a run with other settings.
        Interrupted: If a signal came; the same command goes on.
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
        hint = "Choose another --out, or the --budget and the --smoke that it was started with."
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
    except TrainingError as error:  # a model that diverges is a result, not the end of the table
        print(f"{out}: {error}")
    except RunFolderError as error:  # another process is at it; the table can be written again
        print(f"left out: {error}")
