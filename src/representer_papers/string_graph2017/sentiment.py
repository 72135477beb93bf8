"""L17 Table 2: string-kernel networks on the Stanford Sentiment Treebank."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from representer.data.text import WordVectors, read_vectors
from representer.errors import ArgumentError
from representer.tasks.estimator_data import Data
from representer.tasks.recipe import Request
from representer_papers.shared.baselines import write_baselines
from representer_papers.shared.lines import Measure, accuracy
from representer_papers.shared.runs import Run, run_missing
from representer_papers.string_graph2017 import sentiment_run
from representer_papers.string_graph2017.published import SENTIMENT_CELLS as CELLS
from representer_papers.string_graph2017.sentiment_run import SentimentConfig
from representer_papers.string_graph2017.sentiment_table import write_table
from representer_papers.string_graph2017.treebank import Located, locate, read

EPOCHS = 200  # maximum; early stopping ends most runs long before
MEASURE = Measure("string-sentiment", "test accuracy", accuracy, "epochs", EPOCHS)
# Tiny sizes that check the setup.
_SMOKE = {"epochs": 2, "hidden_size": 8, "embedding_size": 8, "batch_size": 4}


def reproduce(request: Request) -> Path:
    """Run the missing models in ``OUT/DATASET/CELL-VECTORS-seedK``, and write the table.

    The table lists every finished run of the folder, with any word vectors.

    Raises:
        ArgumentError: If a cell needs word vectors and the request has none.
    """
    cells = _cells(request)
    places = locate(request.data, request.datasets)
    for place in places:
        home = request.out / place.dataset.name
        configs = [_config(request, place, cell, s) for s in request.seeds for cell in cells]
        runs = [Run(home / config.name, config, "epochs") for config in configs]

        def load(place: Located = place) -> tuple[Data, WordVectors | None]:
            data = read(place)
            if request.vectors is None:
                return data, None
            return data, read_vectors(request.vectors, data.inputs.vocabulary)

        beside = {home / "baselines.json": lambda path, read: write_baselines(path, read[0])}
        train = partial(sentiment_run.run, request.threads or None)
        run_missing(request, MEASURE, runs, load, train, beside)
    return write_table(request, [place.dataset for place in places])


def preset(name: str, task: str) -> dict[str, Any]:
    """Return the settings of a preset, ``"paper"`` or ``"authors_code"``, for fine or binary.

    The paper reads out c_n and mentions no dropout inside the layers; the authors' code sums the
    states and has such dropout. Where the paper is silent, both presets follow the code: batches of
    at most 32 texts of one length, learning rate, penalty, early stopping.
    """
    if name == "paper":
        return {"preset": name, "readout": "last", "rnn_dropout": 0.0}
    return {"preset": name, "readout": "sum", "rnn_dropout": 0.2 if task == "fine" else 0.1}


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
