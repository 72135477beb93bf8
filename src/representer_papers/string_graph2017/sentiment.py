"""L17 Table 2: string-kernel networks on the Stanford Sentiment Treebank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError, RunFolderError, TrainingError
from representer.tasks.recipe import Recipe, Request
from representer_papers.string_graph2017.sentiment_config import (
    CELLS,
    EPOCHS,
    SentimentConfig,
    preset,
)
from representer_papers.string_graph2017.table2 import REPORTED, SOURCE

if TYPE_CHECKING:
    from representer_papers.string_graph2017.treebank import Located

# Tiny sizes that check the setup.
_SMOKE = {"epochs": 2, "hidden_size": 8, "embedding_size": 8, "batch_size": 4}


def run(request: Request) -> Path:
    """Run the missing combinations, and write the table.

    Each combination is a run folder ``OUT/DATASET/CELL-VECTORS-seedK``. Finished runs are kept,
    interrupted runs resume, and runs that another process is working on are skipped, so the command
    can be repeated and run several times in parallel. The table lists every finished run of the
    folder, with any word vectors.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If the request names an unknown cell, preset or data set, or a folder has a
            run with other settings.
        DataError: If a data set is missing, or one of its files is invalid.
    """
    from representer_papers.string_graph2017.sentiment_table import write_table
    from representer_papers.string_graph2017.treebank import locate

    cells = _cells(request)
    places = locate(request.data, request.datasets)
    for place in places if not request.table_only else ():
        configs = [_config(request, place, cell, s) for s in request.seeds for cell in cells]
        _run_all(request, place, configs)
    return write_table(request, [place.dataset for place in places])


SENTIMENT = Recipe(
    name="string-sentiment",
    title="Sentiment: three string-kernel layers, constant and gated decay, SST fine and binary",
    source=SOURCE,
    run=run,
    reported=REPORTED,
)


def _cells(request: Request) -> tuple[str, ...]:
    if request.filter_lengths:
        raise ArgumentError("filter_lengths", request.filter_lengths, "none, for this recipe")
    for cell in request.cells:
        if cell not in CELLS:
            raise ArgumentError("cells", cell, f"some of {', '.join(CELLS)}")
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


def _run_all(request: Request, place: Located, configs: list[SentimentConfig]) -> None:
    """Run the missing models and baselines of a data set, reading its files once."""
    home = request.out / place.dataset.name
    waiting = [config for config in configs if not _is_done(config, home / config.name)]
    baselines = home / "baselines.json"
    if not waiting and baselines.exists():
        return
    from representer.data.text import read_vectors
    from representer_papers.shared.baselines import write_baselines
    from representer_papers.string_graph2017.treebank import read

    data = read(place)
    vectors = read_vectors(request.vectors, data.vocabulary) if request.vectors else None
    for config in waiting:
        chosen = None if config.embedding == "learned" else vectors
        _run(home / config.name, config, data, chosen, request.threads or None)
    if not baselines.exists():
        home.mkdir(parents=True, exist_ok=True)
        write_baselines(baselines, data)


def _stem(path: str) -> str:
    """Return the name of a file without the suffix of its format."""
    name = Path(path).name
    return name.removesuffix(Path(name).suffix) if name.endswith((".npz", ".txt")) else name


def _is_done(config: SentimentConfig, folder: Path) -> bool:
    """Return True if a finished run with these settings exists.

    A run that ended for lack of epochs is not done if the configuration now allows more of them.

    Raises:
        ArgumentError: If the folder has a run with other settings.
    """
    path = folder / "config.json"
    if not path.exists():
        return False
    written, wanted = json.loads(path.read_text("utf-8")), config.to_dict()
    differing = [name for name in wanted if written.get(name) != wanted[name]]
    if differing not in ([], ["epochs"]):
        hint = f"Its {differing[0]} is {written.get(differing[0])!r}; choose another --out."
        raise ArgumentError("out", str(folder), "a run with these settings", hint=hint)
    metrics = folder / "metrics.json"
    if not metrics.exists():
        return False
    stopped_by = json.loads(metrics.read_text("utf-8"))["stopped_by"]
    return stopped_by != "epochs" or written["epochs"] >= wanted["epochs"]


def _run(folder: Path, config: SentimentConfig, *arguments: Any) -> None:
    from representer.storage.run_folder import RunFolder
    from representer_papers.string_graph2017 import sentiment_run

    print(f"{folder}:")
    try:
        with RunFolder(folder, resume=folder.exists()) as run_folder:
            sentiment_run.run(run_folder, config, *arguments)
    except TrainingError as error:  # divergence of one cell must not stop the others
        print(f"{folder}: {error}")
    except RunFolderError as error:  # another process is working on it
        print(f"skipped: {error}")
