"""L19 Table 2: seven cells, 1-gram and 3-gram, on four sets of documents."""

from __future__ import annotations

import csv
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
from representer_papers.shared import datasets, tables


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
            train = datasets.existing(root, (folder,), ("train.csv", "train_subset.csv"))
            test = datasets.existing(root, (folder,), ("test.csv",))
            if train is not None and test is not None:
                width = len(next(csv.reader(physical_lines(train)), []))
                columns = range(2, 2 + min(dataset.text_columns, width - 1))
                return DocumentFiles(dataset, train, test, ",".join(map(str, columns)))
        what = f"{' or '.join(dataset.folders)} with train.csv and test.csv"
        raise datasets.missing(what, root)

    return datasets.located(root, names, DATASETS, find)


FILTER_LENGTHS = (1, 3)
VALID_FRACTION = 0.05  # neither the paper nor the code says how validation data were chosen
MEASURE = tables.Measure(
    "rkm-documents", "test accuracy", tables.accuracy, "steps", 40_001,
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
        datasets.for_smoke(request, files.dataset.name, files)
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
            runs = [tables.Run(Path(config.out or ""), config) for config in configs]
            load, train = partial(FLOW.prepare, configs[0]), partial(_train, baselines)
            beside = {baselines: datasets.write_baselines}
            tables.run_missing(request, MEASURE, runs, load, train, beside)
    return _write_table(request, places)


def _train(baselines: Path, run: RunFolder, config: TextConfig, data: Data) -> None:
    read = datasets.read_baselines(baselines)
    FLOW.report(run, FLOW.train(run, config, data), baselines=read)


def _config(
    request: Request, place: DocumentFiles, folder: Path, cell: str, n: int, seed: int
) -> TextConfig:
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
    options = defaults_of(config)
    settings = {name: options[name] for name in PRESETS[request.preset]}
    if request.preset == "authors_code":
        settings["max_length"] = place.dataset.padded_length
    settings["max_steps"] = max(1, round(request.budget * settings["max_steps"]))
    settings["valid_fraction"] = VALID_FRACTION
    if request.vectors:
        settings["vectors"] = request.vectors
    return replace(config, **settings | (_SMOKE if request.smoke else {}))


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
    return tables.write_page(request, title, [settings, *_ABOUT], lines)


def _section(request: Request, dataset: DocumentSet) -> list[str]:
    seeds, folder = request.seeds, request.out / dataset.name
    every = [tables.read_json(folder / f"baselines-seed{seed}.json") for seed in seeds]
    baselines = [of_seed for of_seed in every if of_seed]
    if not baselines:
        return [f"## {dataset.title} (not run)"]
    runs: Runs = {
        key: {seed: by_seed[seed] for seed in seeds if seed in by_seed}
        for key, by_seed in tables.metrics_by_seed(folder, "cell", "filter_length").items()
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
    rows = []
    for name, cell in ROWS.items():
        ours = (_ours(list(runs.get((cell, n), {}).values())) for n in lengths)
        printed = (DOCUMENTS.get((name, column_name(dataset.name, n))) for n in lengths)
        paper = (f"{reported.value:.2f}" if reported else "–" for reported in printed)
        rows.append((name, *(cell for pair in zip(paper, ours, strict=True) for cell in pair)))
    for row, baseline in enumerate(baselines[0]["baselines"]):
        accuracies = [of_seed["baselines"][row]["accuracy"] for of_seed in baselines]
        shown = _accuracy(accuracies, baseline["accuracy_interval"])
        rows.append((baseline["name"], *["–", shown] * len(lengths)))
    lines = [f"## {dataset.title} ({note})", *tables.rows_of(("model", *heads), rows)]
    for n in lengths:
        lines += _of_length(seeds, dataset.name, n, runs)
    return lines


def _of_length(seeds: Sequence[int], dataset: str, n: int, runs: Runs) -> list[str]:
    """Compare the cells' order with the paper's, and show every seed, whose cells share a split."""
    by_name = {name: runs.get((cell, n), {}) for name, cell in ROWS.items()}
    ours = {
        name: {seed: tables.accuracy(metrics) for seed, metrics in by_seed.items()}
        for name, by_seed in by_name.items()
        if len(by_seed) == len(seeds)
    }
    column = column_name(dataset, n)
    paper = {name: r.value for (name, of), r in DOCUMENTS.items() if of == column}
    lines = tables.order_lines(f"{n}-gram", paper, ours)
    rows = [
        (name, *tables.seed_cells(by_seed, seeds, lambda m: tables.percent(tables.accuracy(m))))
        for name, by_seed in by_name.items()
        if by_seed
    ]
    if len(seeds) > 1 and rows:
        lines += tables.rows_of((f"{n}-gram, by seed", *(f"seed {seed}" for seed in seeds)), rows)
    return lines


def _ours(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    figure = _accuracy([*map(tables.accuracy, runs)], runs[0]["test"]["accuracy_interval"])
    steps = " / ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    return f"{figure}, {steps} steps"


def _accuracy(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    seeds = f" ({len(accuracies)} seeds)" if len(accuracies) > 1 else ""
    return f"{tables.mean_accuracy(accuracies, interval)}{seeds}"
