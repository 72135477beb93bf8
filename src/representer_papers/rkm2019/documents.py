"""L19 Table 2: seven cells, 1-gram and 3-gram, on four sets of documents."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from representer.data.tables.reading import physical_lines
from representer.options.text import PRESETS, TextConfig, defaults_of
from representer.storage.run import RunFolder
from representer.tasks.objects import Data
from representer.tasks.recipe import Request
from representer.tasks.text import FLOW
from representer_papers.rkm2019.published import DOCUMENTS, ROWS, column_name
from representer_papers.shared.datasets import (
    existing,
    for_smoke,
    located,
    missing,
    read_baselines,
    write_baselines,
)
from representer_papers.shared.runs import Measure, Run, accuracy, run_missing
from representer_papers.shared.table import (
    mean_accuracy,
    metrics_by_seed,
    order_lines,
    seed_cells,
    table_head,
    table_row,
    write_page,
)


@dataclass(frozen=True)
class DocumentSet:
    """Folder names and official sizes of a data set."""

    name: str  # on the command line
    title: str  # in the paper
    folders: tuple[str, ...]  # possible names, the full set first
    text_columns: int  # after the class; a file may have fewer
    train_rows: int
    test_rows: int
    padded_length: int  # words to which the authors' code pads or cuts a document


@dataclass(frozen=True)
class DocumentFiles:
    """The files of a data set."""

    dataset: DocumentSet
    train: Path
    test: Path
    text: str  # numbers of the text columns


DATASETS = {
    d.name: d
    for d in (
        DocumentSet("ag_news", "AG News", ("ag_news_csv", "ag_news"), 2, 120_000, 7_600, 128),
        DocumentSet("dbpedia", "DBpedia", ("dbpedia_csv", "dbpedia_14k"), 2, 560_000, 70_000, 128),
        DocumentSet("yahoo", "Yahoo! Answers", ("yahoo_answers_csv", "yahoo_2class"), 3,
                1_400_000, 60_000, 96),
        DocumentSet("yelp", "Yelp Full", ("yelp_review_full_csv", "yelp_10k"), 1,
                650_000, 50_000, 128),
    )
}  # fmt: skip


def locate_documents(root: Path, names: Sequence[str]) -> list[DocumentFiles]:
    """Find data sets in subfolders of a folder; see `located` for errors."""

    def find(root: Path, dataset: DocumentSet) -> DocumentFiles:
        for folder in dataset.folders:
            train = existing(root, (folder,), ("train.csv", "train_subset.csv"))
            test = existing(root, (folder,), ("test.csv",))
            if train is not None and test is not None:
                return DocumentFiles(dataset, train, test, _text_columns(train, dataset))
        raise missing(f"{' or '.join(dataset.folders)} with train.csv and test.csv", root)

    return located(root, names, DATASETS, find)


def _text_columns(path: Path, dataset: DocumentSet) -> str:
    """Return the numbers of the text columns that the file has."""
    width = len(next(csv.reader(physical_lines(path)), []))
    return ",".join(str(column) for column in range(2, 2 + min(dataset.text_columns, width - 1)))


FILTER_LENGTHS = (1, 3)
VALID_FRACTION = 0.05  # neither the paper nor the code says how validation data were chosen
MEASURE = Measure(
    "rkm-documents", "test accuracy", accuracy, "steps", 40_001,
    planned=lambda settings: settings["max_steps"], curve="valid_accuracy",
)  # fmt: skip

# Tiny sizes that check the setup.
_SMOKE = {
    "hidden_size": 8, "embedding_size": 8, "batch_size": 4, "max_steps": 4, "evaluate_every": 2,
    "max_length": 32, "valid_fraction": 0.2, "min_length": 1,
}  # fmt: skip


def reproduce_documents(request: Request) -> Path:
    """Run the missing combinations in ``OUT/DATASET/CELL-Ngram-seedK``, and write the table."""
    places = [
        for_smoke(request, files.dataset.name, files)
        for files in locate_documents(request.data, request.datasets)
    ]
    for files in places:
        folder = request.out / files.dataset.name
        for seed in request.seeds:  # the cells of a seed share one split, which is read once
            configs = [
                _config(request, files, folder, cell, n, seed)
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
    return _write_table(request, places)


def _train(baselines: Path, run: RunFolder, config: TextConfig, data: Data) -> None:
    FLOW.report(run, FLOW.train(run, config, data), baselines=read_baselines(baselines))


def _config(
    request: Request, place: DocumentFiles, folder: Path, cell: str, n: int, seed: int
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


_ABOUT = (
    "Test accuracy at the best validation accuracy. Ours: mean ± standard deviation over",
    "seeds, or one run with its 95 % interval (Wilson); then the number of training steps",
    "with 16 documents each (the original: 40,001).",
)
Runs = dict[tuple[str, int], dict[int, dict[str, Any]]]  # metrics by cell and length, then seed


def _write_table(request: Request, places: Sequence[DocumentFiles]) -> Path:
    """Write ``table.md`` from the finished runs of the requested seeds, and return its path."""
    lines = [line for files in places for line in ("", *_section(request, files.dataset))]
    settings = f"Settings: preset `{request.preset}`, word vectors `{request.vectors or 'none'}`."
    title = "L19 Table 2: document classification, test accuracy in %"
    return write_page(request, title, [settings, *_ABOUT], lines)


def _section(request: Request, dataset: DocumentSet) -> list[str]:
    seeds, folder = request.seeds, request.out / dataset.name
    paths = [folder / f"baselines-seed{seed}.json" for seed in seeds]
    baselines = [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]
    if not baselines:
        return [f"## {dataset.title} (not run)"]
    runs: Runs = {
        key: {seed: by_seed[seed] for seed in seeds if seed in by_seed}
        for key, by_seed in metrics_by_seed(folder, "cell", "filter_length").items()
    }
    sizes = baselines[0]["sizes"]
    train, test = sizes["train"] + sizes["valid"], sizes["test"]
    is_whole = (train, test) == (dataset.train_rows, dataset.test_rows)
    size = (
        f"{train:,} of {dataset.train_rows:,} training and {test:,} of {dataset.test_rows:,} test"
    )
    note = "full set" if is_whole else f"a subset, not comparable with the paper: {size} documents"
    lengths = sorted({n for (_, n), by_seed in runs.items() if by_seed}) or [1, 3]
    heads = [f"{n}-gram, {who}" for n in lengths for who in ("paper", "ours")]
    lines = [f"## {dataset.title} ({note})", "", *table_head("model", *heads)]
    for name, cell in ROWS.items():
        cells = []
        for n in lengths:
            reported = DOCUMENTS.get((name, column_name(dataset.name, n)))
            cells.append(f"{reported.value:.2f}" if reported else "–")
            cells.append(_ours(list(runs.get((cell, n), {}).values())))
        lines.append(table_row(name, *cells))
    for row, baseline in enumerate(baselines[0]["baselines"]):
        accuracies = [of_seed["baselines"][row]["accuracy"] for of_seed in baselines]
        shown = _accuracy(accuracies, baseline["accuracy_interval"])
        lines.append(table_row(baseline["name"], *["–", shown] * len(lengths)))
    for n in lengths:
        lines += _order(seeds, dataset.name, n, runs)
        lines += _by_seed(seeds, n, runs)
    return lines


def _by_seed(seeds: Sequence[int], n: int, runs: Runs) -> list[str]:
    """Return the accuracies of every seed, whose cells share one split of the documents."""
    by_name = {name: runs.get((cell, n), {}) for name, cell in ROWS.items()}
    if len(seeds) == 1 or not any(by_name.values()):
        return []
    lines = ["", *table_head(f"{n}-gram, by seed", *(f"seed {seed}" for seed in seeds))]
    for name, by_seed in by_name.items():
        if by_seed:
            lines.append(table_row(name, *seed_cells(by_seed, seeds, _percent)))
    return lines


def _percent(metrics: dict[str, Any]) -> str:
    return f"{100 * metrics['test']['accuracy']:.2f}"


def _order(seeds: Sequence[int], dataset: str, n: int, runs: Runs) -> list[str]:
    """Return the comparison of the cells' order with the paper's."""
    paper: dict[str, float] = {}
    ours: dict[str, dict[int, float]] = {}
    for name, cell in ROWS.items():
        if reported := DOCUMENTS.get((name, column_name(dataset, n))):
            paper[name] = reported.value
        by_seed = runs.get((cell, n), {})
        if len(by_seed) == len(seeds):
            ours[name] = {seed: metrics["test"]["accuracy"] for seed, metrics in by_seed.items()}
    return order_lines(f"{n}-gram", paper, ours)


def _ours(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    accuracies = [run["test"]["accuracy"] for run in runs]
    figure = _accuracy(accuracies, runs[0]["test"]["accuracy_interval"])
    steps = " / ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    return f"{figure}, {steps} steps"


def _accuracy(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    seeds = f" ({len(accuracies)} seeds)" if len(accuracies) > 1 else ""
    return f"{mean_accuracy(accuracies, interval)}{seeds}"
