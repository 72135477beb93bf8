"""L19 Table 2: seven cells, 1-gram and 3-gram, on four sets of documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from representer.errors import ArgumentError, TrainingError
from representer.tasks.recipe import Recipe, Request
from representer.tasks.text.text_config import PRESETS, TextConfig, defaults
from representer_papers.rkm2019.table2 import REPORTED, ROWS, SOURCE

if TYPE_CHECKING:
    from representer.data.text import WordVectors
    from representer.tasks.baselines import Baseline
    from representer.tasks.text.text_data import TextData
    from representer_papers.rkm2019.datasets import Located
    from representer_papers.rkm2019.report import Results

FILTER_LENGTHS = (1, 3)
VALID_FRACTION = 0.05  # neither the paper nor the code says how validation data were chosen

_WITHOUT_EFFECT = ("threads:", "out:")  # lines of config.yaml that do not change the results
# Tiny sizes that check the setup.
_SMOKE = {
    "hidden_size": 8, "embedding_size": 8, "batch_size": 4, "max_steps": 4, "evaluate_every": 2,
    "max_length": 32, "valid_fraction": 0.2, "min_length": 1,
}  # fmt: skip


def run(request: Request) -> Path:
    """Run the missing combinations, and write the table.

    Each combination is a run folder ``OUT/DATASET/CELL-Ngram-seedK``. Finished runs are kept and
    interrupted runs resume, so the command can be repeated until the table is complete.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If the request names an unknown cell, preset or data set, or a folder has a
            run with other settings.
        DataError: If a data set is missing.
    """
    from representer_papers.rkm2019.datasets import locate
    from representer_papers.rkm2019.report import Results, write_table

    _check(request)
    places = locate(request.data, request.datasets)
    results = Results()
    for place in places:
        for seed in request.seeds:
            _run_seed(request, place, seed, results)
    return write_table(request, places, results)


DOCUMENTS = Recipe(
    name="rkm-documents",
    title="Document classification: seven cells, 1-gram and 3-gram, four data sets",
    source=SOURCE,
    run=run,
    reported=REPORTED,
)


def _check(request: Request) -> None:
    known = tuple(ROWS.values())
    for cell in request.cells:
        if cell not in known:
            raise ArgumentError("cells", cell, f"some of {', '.join(known)}")
    if request.preset not in PRESETS:
        raise ArgumentError("preset", request.preset, f"one of {', '.join(PRESETS)}")


def _run_seed(request: Request, place: Located, seed: int, results: Results) -> None:
    """Run every cell on one split of a data set, reading the data once."""
    name, folder = place.dataset.name, request.out / place.dataset.name
    configs = {
        (cell, n): _config(request, place, folder, cell, n, seed)
        for cell in request.cells or ROWS.values()
        for n in request.filter_lengths or FILTER_LENGTHS
    }
    baselines = folder / f"baselines-seed{seed}.json"
    waiting = [config for config in configs.values() if not _is_done(config)]
    if not request.table_only and (waiting or not baselines.exists()):
        from representer.data.text import read_vectors
        from representer.tasks.text.text_data import prepare
        from representer_papers.shared.baselines import read_baselines, write_baselines

        data = prepare(next(iter(configs.values())))
        vectors = read_vectors(request.vectors, data.vocabulary) if request.vectors else None
        folder.mkdir(parents=True, exist_ok=True)
        if not baselines.exists():
            write_baselines(baselines, data)
        trained_baselines = read_baselines(baselines)
        for config in waiting:
            _run(config, data, vectors, trained_baselines)
    if baselines.exists():
        results.baselines[name, seed] = json.loads(baselines.read_text("utf-8"))
    for (cell, n), config in configs.items():
        path = Path(config.out or "") / "metrics.json"
        if path.exists():
            results.runs[name, cell, n, seed] = json.loads(path.read_text("utf-8"))


def _config(
    request: Request, place: Located, folder: Path, cell: str, n: int, seed: int
) -> TextConfig:
    options = defaults(request.preset, demo=False, cell=cell)
    settings = {name: options[name] for name in PRESETS[request.preset]}
    if request.preset == "authors_code":
        settings["max_length"] = place.dataset.padded_length
    settings["max_steps"] = max(1, round(request.budget * settings["max_steps"]))
    settings["valid_fraction"] = VALID_FRACTION
    if request.smoke:
        settings |= _SMOKE
    config = TextConfig(
        data=str(place.train),
        test=str(place.test),
        text=place.text,
        label="1",
        header=False,
        out=str(folder / f"{cell}-{n}gram-seed{seed}"),
        cell=cell,
        filter_length=n,
        seed=seed,
        vectors=request.vectors,
        threads=request.threads,
        preset=request.preset,
        baselines=False,
    )
    return replace(config, **settings)


def _is_done(config: TextConfig) -> bool:
    """Return True if a finished run with the same settings exists.

    Raises:
        ArgumentError: If the folder has a run with other settings.
    """
    from representer.tasks.options import as_yaml

    folder = Path(config.out or "")
    written = folder / "config.yaml"
    if written.exists() and _settings(written.read_text("utf-8")) != _settings(as_yaml(config)):
        hint = "Its config.yaml differs from the requested settings; choose another --out."
        raise ArgumentError("out", str(folder), "a run with these settings", hint=hint)
    return (folder / "metrics.json").exists()


def _settings(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(_WITHOUT_EFFECT)]


def _run(
    config: TextConfig,
    data: TextData,
    vectors: WordVectors | None,
    baselines: Sequence[Baseline],
) -> None:
    from representer.storage.run_folder import RunFolder
    from representer.tasks.text.text_fit import evaluate_and_report, train

    folder = Path(config.out or "")
    print(f"{folder}:")
    with RunFolder(folder, resume=folder.exists()) as run_folder:
        try:
            trained = train(run_folder, config, data, vectors)
        except TrainingError as error:  # divergence of one cell must not stop the others
            print(f"{folder}: {error}")
            return
        evaluate_and_report(run_folder, data, trained, baselines=baselines)
