"""L19 Table 2: seven cells, 1-gram and 3-gram, on four sets of documents."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_data import Data
from representer.tasks.recipe import Request
from representer.tasks.text.text_flow import FLOW
from representer.tasks.text.text_task import PRESETS, TextConfig, defaults_of
from representer_papers.rkm2019.datasets import Located, locate
from representer_papers.rkm2019.documents_table import write_table
from representer_papers.rkm2019.published import ROWS
from representer_papers.shared.baselines import read_baselines, write_baselines
from representer_papers.shared.lines import Measure, accuracy
from representer_papers.shared.runs import Run, run_missing

FILTER_LENGTHS = (1, 3)
VALID_FRACTION = 0.05  # neither the paper nor the code says how validation data were chosen
MEASURE = Measure(
    "rkm-documents", "test accuracy", accuracy, "steps", 40_001,
    planned=lambda settings: settings["max_steps"],
)  # fmt: skip

# Tiny sizes that check the setup.
_SMOKE = {
    "hidden_size": 8, "embedding_size": 8, "batch_size": 4, "max_steps": 4, "evaluate_every": 2,
    "max_length": 32, "valid_fraction": 0.2, "min_length": 1,
}  # fmt: skip


def reproduce(request: Request) -> Path:
    """Run the missing combinations in ``OUT/DATASET/CELL-Ngram-seedK``, and write the table."""
    places = locate(request.data, request.datasets)
    for place in places:
        folder = request.out / place.dataset.name
        for seed in request.seeds:  # the cells of a seed share one split, which is read once
            configs = [
                _config(request, place, folder, cell, n, seed)
                for cell in request.cells or ROWS.values()
                for n in request.filter_lengths or FILTER_LENGTHS
            ]
            baselines = folder / f"baselines-seed{seed}.json"
            run_missing(
                request,
                MEASURE,
                [Run(Path(config.out or ""), config) for config in configs],
                partial(FLOW.prepare, configs[0]),
                partial(_train, baselines),
                {baselines: write_baselines},
            )
    return write_table(request, places)


def _train(baselines: Path, run: RunFolder, config: TextConfig, data: Data) -> None:
    FLOW.report(run, FLOW.train(run, config, data), baselines=read_baselines(baselines))


def _config(
    request: Request, place: Located, folder: Path, cell: str, n: int, seed: int
) -> TextConfig:
    options = defaults_of(TextConfig(preset=request.preset, cell=cell))
    settings = {name: options[name] for name in PRESETS[request.preset]}
    if request.preset == "authors_code":
        settings["max_length"] = place.dataset.padded_length
    settings["max_steps"] = max(1, round(request.budget * settings["max_steps"]))
    settings["valid_fraction"] = VALID_FRACTION
    if request.vectors:
        settings["vectors"] = request.vectors
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
        threads=request.threads,
        preset=request.preset,
        baselines="none",
    )
    return replace(config, **settings)
