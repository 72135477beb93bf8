"""L17 Table 2: string-kernel networks on the Stanford Sentiment Treebank."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError
from representer.tasks.recipe import Recipe, Request
from representer_papers.string_graph2017.sentiment_config import (
    CELLS,
    EPOCHS,
    SentimentConfig,
    preset,
)
from representer_papers.string_graph2017.table2 import REPORTED, SOURCE
from representer_papers.string_graph2017.treebank import DATASETS

if TYPE_CHECKING:
    from representer.data.text import WordVectors
    from representer.tasks.estimator_data import Data
    from representer_papers.string_graph2017.treebank import Located

# Tiny sizes that check the setup.
_SMOKE = {"epochs": 2, "hidden_size": 8, "embedding_size": 8, "batch_size": 4}


def reproduce(request: Request) -> Path:
    """Run the missing models in ``OUT/DATASET/CELL-VECTORS-seedK``, and write the table.

    The table lists every finished run of the folder, with any word vectors.

    Raises:
        ArgumentError: If a cell needs word vectors and the request has none.
    """
    from representer_papers.shared.baselines import write_baselines
    from representer_papers.shared.runs import Run, run_missing
    from representer_papers.string_graph2017 import sentiment_run
    from representer_papers.string_graph2017.sentiment_table import write_table
    from representer_papers.string_graph2017.treebank import locate, read

    cells = _cells(request)
    places = locate(request.data, request.datasets)
    for place in () if request.table_only else places:
        home = request.out / place.dataset.name
        configs = [_config(request, place, cell, s) for s in request.seeds for cell in cells]
        runs = [Run(home / config.name, config, "epochs") for config in configs]

        def load(place: Located = place) -> tuple[Data, WordVectors | None]:
            from representer.data.text import read_vectors

            data = read(place)
            vectors = None
            if request.vectors:
                vectors = read_vectors(request.vectors, data.inputs.vocabulary)
            return data, vectors

        beside = {home / "baselines.json": lambda path, read: write_baselines(path, read[0])}
        run_missing(runs, load, partial(sentiment_run.run, request.threads or None), beside)
    return write_table(request, [place.dataset for place in places])


SENTIMENT = Recipe(
    name="string-sentiment",
    title="Sentiment: three string-kernel layers, constant and gated decay, SST fine and binary",
    source=SOURCE,
    reproduce=reproduce,
    cells=CELLS,
    datasets=tuple(DATASETS),
    presets=("paper", "authors_code"),
    options=("vectors",),
    reported=REPORTED,
)


def _cells(request: Request) -> tuple[str, ...]:
    for cell in request.cells:
        if request.vectors is None and not cell.endswith("-learned"):
            hint = "Or choose a cell that ends with -learned."
            raise ArgumentError("vectors", None, f"a file of word vectors for {cell}", hint=hint)
    without = tuple(cell for cell in CELLS if cell.endswith("-learned"))
    return request.cells or (CELLS if request.vectors else without)


def _config(request: Request, place: Located, cell: str, seed: int) -> SentimentConfig:
    dataset = place.dataset
    vectors = None if cell.endswith("-learned") else _stem(request.vectors or "")
    settings: dict[str, Any] = {"epochs": max(1, round(request.budget * EPOCHS))}
    settings |= preset(request.preset, dataset.task)
    if request.smoke:
        settings |= _SMOKE
    return SentimentConfig(dataset.name, cell, seed, vectors=vectors, **settings)


def _stem(path: str) -> str:
    """Return the name of a file without the suffix of its format."""
    name = Path(path).name
    return name.removesuffix(Path(name).suffix) if name.endswith((".npz", ".txt")) else name
