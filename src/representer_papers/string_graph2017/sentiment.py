"""L17 Table 2: string-kernel networks on the Stanford Sentiment Treebank."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from representer.data import text
from representer.data.text import Vocabulary, WordVectors
from representer.errors import ArgumentError
from representer.estimators import TextClassifier
from representer.estimators.fitting import Examples, training_task
from representer.estimators.targets import Classes
from representer.estimators.text import TextInputs
from representer.models import StackedClassifier, StackedClassifierConfig
from representer.storage.run import RunFolder
from representer.tasks.objects import Data, encode_labels
from representer.tasks.recipe import Request
from representer.tasks.results import Outcome, metrics_of
from representer.tasks.text import objects_of
from representer.training import generators
from representer.training.config import TrainerConfig
from representer.training.trainer import Trainer
from representer_papers.shared import datasets, tables
from representer_papers.string_graph2017.published import SENTIMENT, SENTIMENT_CELLS, others_in


@dataclass(frozen=True)
class TreebankSet:
    """A task of the treebank with its training data."""

    name: str  # on the command line
    title: str  # in the table
    stem: str  # first part of the file names
    labels: tuple[str, ...]
    train: str  # last part of the training file's name
    sizes: tuple[int, int, int]  # original training, validation and test examples

    @property
    def task(self) -> str:
        """The paper's name of the task: fine or binary."""
        return self.name.partition("-")[0]


_FINE, _BINARY = ("0", "1", "2", "3", "4"), ("0", "1")
DATASETS = {
    d.name: d
    for d in (
        TreebankSet("fine", "five classes, trained on phrases", "stsa.fine", _FINE,
                "phrases.train", (157_401, 1_101, 2_210)),
        TreebankSet("binary", "two classes, trained on phrases", "stsa.binary", _BINARY,
                "phrases.train", (77_201, 872, 1_821)),
        TreebankSet("fine-roots", "five classes, trained on sentences", "stsa.fine", _FINE,
                "train", (8_544, 1_101, 2_210)),
        TreebankSet("binary-roots", "two classes, trained on sentences", "stsa.binary", _BINARY,
                "train", (6_920, 872, 1_821)),
    )
}  # fmt: skip


@dataclass(frozen=True)
class TreebankFiles:
    """The files of a data set."""

    dataset: TreebankSet
    train: Path
    valid: Path
    test: Path


def locate_treebank(root: Path, names: Sequence[str]) -> list[TreebankFiles]:
    """Find data sets in a folder, or in its folder ``sst``; see `located` for errors."""

    def find(root: Path, dataset: TreebankSet) -> TreebankFiles:
        paths = []
        for end in (dataset.train, "dev", "test"):
            name = f"{dataset.stem}.{end}"
            path = datasets.existing(root, ("sst", "stsa", ""), (name,))
            if path is None:
                raise datasets.missing(f"{name}, nor sst/{name}, also compressed", root)
            paths.append(path)
        return TreebankFiles(dataset, *paths)

    return datasets.located(root, names, DATASETS, find)


def read_treebank(place: TreebankFiles) -> Data:
    """Read the parts of a data set, with the vocabulary of all parts.

    The text is already tokenized, so it is split at spaces.

    Raises:
        DataError: If a file is invalid; the error names the file and the line.
    """
    labels = place.dataset.labels
    paths = {"train": place.train, "valid": place.valid, "test": place.test}
    parts = {n: objects_of(text.read_labeled_lines(p, labels), (p,)) for n, p in paths.items()}
    values = {name: encode_labels(objects, [labels]) for name, objects in parts.items()}
    words = [line.split() for objects in parts.values() for line in objects.objects]
    data = Data(Classes(labels), parts, values, list(parts.items()))
    return with_vocabulary(data, Vocabulary.build(words))


def with_vocabulary(data: Data, vocabulary: Vocabulary) -> Data:
    """Return the data with another vocabulary."""
    inputs = TextInputs(vocabulary, "blanks", None)
    encoded = {name: inputs.encode(objects.objects) for name, objects in data.parts.items()}
    return replace(data, inputs=inputs, encoded=encoded)


EPOCHS = 200  # maximum; early stopping ends most runs long before
MEASURE = tables.Measure(
    "string-sentiment", "test accuracy", tables.accuracy, "epochs", EPOCHS, curve="valid_accuracy"
)
# Tiny sizes that check the setup.
_SMOKE = {"epochs": 2, "hidden_size": 8, "embedding_size": 8, "batch_size": 4}


def reproduce_sentiment(request: Request) -> Path:
    """Run the missing models in ``OUT/DATASET/CELL-VECTORS-seedK``, and write the table.

    The table lists every finished run of the folder, with any word vectors.

    Raises:
        ArgumentError: If a cell needs word vectors and the request has none.
    """
    cells = _cells(request)
    places = [
        datasets.for_smoke(request, files.dataset.name, files)
        for files in locate_treebank(request.data, request.datasets)
    ]
    for files in places:
        home = request.out / files.dataset.name
        configs = [_config(request, files, cell, s) for s in request.seeds for cell in cells]
        runs = [tables.Run(home / config.name, config, "epochs") for config in configs]

        def load(files: TreebankFiles = files) -> tuple[Data, WordVectors | None]:
            data = read_treebank(files)
            if request.vectors is None:
                return data, None
            return data, text.read_vectors(request.vectors, data.inputs.vocabulary)

        beside = {home / BASELINES: lambda path, read: datasets.write_baselines(path, read[0])}
        train = partial(run_sentiment, request.threads or None)
        tables.run_missing(request, MEASURE, runs, load, train, beside)
    return _write_table(request, [files.dataset for files in places])


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
    without = tuple(cell for cell in SENTIMENT_CELLS if cell.endswith("-learned"))
    return request.cells or (SENTIMENT_CELLS if request.vectors else without)


def _config(request: Request, place: TreebankFiles, cell: str, seed: int) -> SentimentConfig:
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


# The constant is that of a command of the authors' earlier code; the paper prints none.
DECAYS: dict[str, float | str] = {"gated": "state", "constant": 0.5}


@dataclass(frozen=True)
class SentimentConfig:
    """The settings that determine a run, apart from the data files."""

    dataset: str  # a key of treebank.DATASETS
    cell: str  # one of SENTIMENT_CELLS
    seed: int  # of weights, order and dropout
    epochs: int  # at most
    vectors: str | None  # name of the word vectors; None if they are learned
    preset: str = "paper"
    readout: Literal["last", "sum"] = "sum"  # c_n alone, or the sum over c_1 to c_n
    rnn_dropout: float = 0.2  # inside the layers
    embedding_size: int = 300  # of learned word vectors
    hidden_size: int = 200
    batch_size: int = 32  # texts, all of one length, at most
    dropout: float = 0.35  # on the embeddings, between layers, and before the softmax
    lr: float = 1e-3
    lr_decay: float = 0.95  # factor of the learning rate after every epoch
    penalty: float = 1e-6  # factor of the sum of all squared weights
    patience: int = 20
    max_drop: float = 0.05  # drop in validation accuracy at which a run ends

    @property
    def decay(self) -> float | str:
        """λ: a number, or the name of a gate."""
        return DECAYS[self.cell.partition("-")[0]]

    @property
    def embedding(self) -> str:
        """Treatment of the word vectors: frozen, tuned or learned."""
        return self.cell.partition("-")[2] or "frozen"

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return "-".join((self.cell, *([self.vectors] if self.vectors else []), f"seed{self.seed}"))


def run_sentiment(
    threads: int | None,
    folder: RunFolder,
    config: SentimentConfig,
    read: tuple[Data, WordVectors | None],
) -> dict[str, Any]:
    """Train one model, or resume its training, and return its metrics.

    ``read`` is the data, with the vocabulary of all parts, and the word vectors, if any.

    Raises:
        TrainingError: If the training diverges.
        Interrupted: If a signal arrives; the run can be resumed.
    """
    data, vectors = read
    data, matrix, cover = with_vectors(config, data, vectors)
    model = build_classifier(config, data, matrix)
    estimator: Any = TextClassifier()
    estimator.target_ = data.target
    estimator.examples_ = {name: len(data.parts[name]) for name in ("train", "valid")}
    estimator.inputs_ = inputs = _EqualLengths(data.inputs.vocabulary, "blanks", None)
    estimator.reading_ = {"text": "text", "label": "label"}
    estimator.write_description(folder, model)
    train, valid = (Examples(data.encoded[name], data.values[name]) for name in ("train", "valid"))
    parameters = TextClassifier(batch_size=config.batch_size)
    task = training_task(parameters, inputs, data.target, train, valid, config.seed)
    settings = {k: v for k, v in asdict(config).items() if k != "epochs"}  # the trainer checks it
    settings["sha256"] = sorted(objects.digest for objects in data.parts.values())
    trainer = Trainer(model, task, trainer_config(config, threads), folder, settings=settings)
    result = trainer.fit()
    trainer.restore_best()
    estimator.network_ = model.eval()
    predictions = estimator.predictions(data.parts["test"].objects)
    parts = {"word vectors": model.embedding, "layers": model.layers, "output": model.output}
    counts = {name: sum(p.numel() for p in module.parameters()) for name, module in parts.items()}
    counts["all"] = sum(counts.values())
    outcome = Outcome(config.cell, predictions, result, len(task.batches(0)), counts)
    return metrics_of("text", data, outcome) | {"cover": cover}


class _EqualLengths(TextInputs):
    """Batches of documents of one length, as in the authors' code."""

    def batches(
        self, encoded: Sequence[list[int]], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        lengths = [len(document) for document in encoded]
        return lambda epoch: text.equal_lengths(lengths, batch_size, seed, epoch)


def with_vectors(
    config: SentimentConfig, data: Data, vectors: WordVectors | None
) -> tuple[Data, Tensor | None, dict[str, float]]:
    """Return the data with its final vocabulary, the embedding matrix, and the vectors' coverage.

    Vectors are normalized to length 1. Words without a vector are unknown, with a row of zeros,
    except for words of the training part if vectors are tuned: their rows are random, with a
    length of 1 on average.
    """
    if vectors is None or config.embedding == "learned":
        return with_vocabulary(data, Vocabulary.build(_words(data, "train"))), None, {}
    scale = math.sqrt(3 / vectors.dimensions)
    nothing = torch.Generator()
    _, coverage = vectors.align(data.inputs.vocabulary, nothing)
    trained = {word for tokens in _words(data, "train") for word in tokens}
    covered = coverage.words | (trained if config.embedding == "tuned" else set())
    marks = len(Vocabulary.MARKS)
    kept = [word for word in data.inputs.vocabulary.words[marks:] if word in covered]
    vocabulary = Vocabulary((*Vocabulary.MARKS, *kept))
    matrix, _ = vectors.align(vocabulary, generators.generator(config.seed, "vectors"), scale)
    rows = [row for row, word in enumerate(vocabulary.words) if word in coverage.words]
    norms = matrix[rows].norm(dim=1, keepdim=True)
    matrix[rows] /= norms.clamp(min=torch.finfo(norms.dtype).tiny)
    matrix[Vocabulary.UNKNOWN] = 0
    counts = Counter(word for tokens in _words(data, "test") for word in tokens)
    cover = {"types": coverage.types, "running": coverage.running(counts)}
    return with_vocabulary(data, vocabulary), matrix, cover


def build_classifier(
    config: SentimentConfig, data: Data, matrix: Tensor | None
) -> StackedClassifier:
    """Return the classifier with initial weights that depend on the seed alone."""
    chosen = StackedClassifierConfig(
        vocabulary_size=len(data.inputs.vocabulary),
        num_classes=data.target.width,
        embedding_size=config.embedding_size if matrix is None else matrix.shape[1],
        hidden_size=config.hidden_size,
        decay=config.decay,  # type: ignore[arg-type]
        readout=config.readout,
        dropout=config.dropout,
        rnn_dropout=config.rnn_dropout,
        padding_index=Vocabulary.PAD,
    )
    with generators.initializing(config.seed):
        model = StackedClassifier(chosen)
    if matrix is not None:
        model.set_vectors(matrix, freeze=config.embedding == "frozen")
    return model


def trainer_config(config: SentimentConfig, threads: int | None) -> TrainerConfig:
    """Return the configuration of the trainer."""
    return TrainerConfig(
        epochs=config.epochs,
        lr=config.lr,
        lr_decay=config.lr_decay,
        weight_decay=2 * config.penalty,  # Adam's weight decay is the gradient of half the penalty
        patience=config.patience,
        max_drop=config.max_drop,
        monitor="valid_accuracy",
        seed=config.seed,
        threads=threads,
    )


def _words(data: Data, part: str) -> list[list[str]]:
    return [data.inputs.words(line) for line in data.parts[part].objects]


_ABOUT = (
    "Test accuracy at the best validation accuracy, by seed; validated and tested on whole",
    "sentences. Three layers of 200 units, order 2; *gated* decay depends on x and h,",
    "*constant* decay is 0.5. Word vectors are frozen (as in the paper), *tuned*, or *learned*",
    "from scratch. The paper prints the best of five runs; its means and validation figures",
    "are from the page of the authors' code. Intervals are Wilson's at 95 %.",
)


Runs = dict[int, dict[str, Any]]  # metrics by seed
Rows = Mapping[tuple[str, str, str | None], Runs]  # by cell, preset and name of the word vectors
BASELINES = "baselines.json"


def _write_table(request: Request, sets: Sequence[TreebankSet]) -> Path:
    """Write ``table.md`` from all finished runs of the folder, and return its path.

    Data sets without a finished run are omitted.
    """
    lines, covers = [], []
    for dataset in sets:
        folder = request.out / dataset.name
        every = tables.metrics_by_seed(folder, "cell", "preset", "vectors")
        order = sorted(every, key=lambda key: (SENTIMENT_CELLS.index(key[0]), key[1], key[2] or ""))
        if order:
            rows = {key: every[key] for key in order}
            lines += _section(dataset, rows, tables.read_json(folder / BASELINES))
            covers += _covers(dataset, rows)
    title = "L17 Table 2: sentiment, test accuracy in %"
    lines = lines or ["No run is finished."]
    return tables.write_page(request, title, _ABOUT, ["", *covers, *lines])


def _covers(dataset: TreebankSet, rows: Rows) -> list[str]:
    """Return the coverage of the word vectors; the paper's cover nearly all words."""
    covers = {key[2]: next(iter(runs.values()))["cover"] for key, runs in rows.items() if key[2]}
    return [
        f"- `{vectors}` covers {cover['running']:.1%} of the running words in the test sentences "
        f"of {dataset.name}, and {cover['types']:.1%} of the distinct words in all its parts."
        for vectors, cover in covers.items()
    ]


def _section(dataset: TreebankSet, rows: Rows, beside: dict[str, Any] | None) -> list[str]:
    seeds = tables.seeds_of(rows)
    heads = ["word vectors", "preset", *(f"seed {seed}" for seed in seeds)]
    heads += ["mean", "best", "validation", "best epoch"]
    blanks, shown = ["–"] * len(seeds), []
    for cell in ("gated", "constant"):
        kinds = ("mean", "best of 5", "validation")
        printed = [SENTIMENT.get((cell, f"{dataset.name}, {measured}")) for measured in kinds]
        if any(printed):
            paper = [f"{p.value:.1f}" if p else "–" for p in printed]
            shown.append((f"{cell}, L17", "GloVe 840B, 300", "–", *blanks, *paper, "–"))
    for (cell, preset, vectors), runs in rows.items():
        named = f"`{vectors}`" if vectors else "none"
        shown.append((cell, named, f"`{preset}`", *_figures(runs, seeds)))
    for baseline in beside["baselines"] if beside else ():
        figure = tables.percent(baseline["accuracy"])
        shown.append((baseline["name"], "–", "–", *blanks, figure, "–", "–", "–"))
    sizes = tuple(beside["sizes"].values()) if beside else dataset.sizes
    ours, whole = (" / ".join(f"{n:,}" for n in counts) for counts in (sizes, dataset.sizes))
    size = f" (a subset, not comparable with the paper: {ours} of {whole} texts)"
    title = f"## {dataset.name}: {dataset.title}{'' if sizes == dataset.sizes else size}"
    table = tables.rows_of(["network", *heads], shown, align="lll")
    return ["", title, *table, *others_in(f"{dataset.name},")]


def _figures(runs: Runs, seeds: Sequence[int]) -> list[str]:
    """Return the figure of each seed of a row, and their mean, best, validation and epochs."""
    accuracies = [*map(tables.accuracy, runs.values())]
    interval = next(iter(runs.values()))["test"]["accuracy_interval"]
    valid = [100 * run["valid"]["valid_accuracy"] for run in runs.values()]
    return [
        *tables.seed_cells(runs, seeds, lambda m: tables.percent(tables.accuracy(m))),
        tables.mean_accuracy(accuracies, interval),
        tables.percent(max(accuracies)),
        f"{statistics.mean(valid):.2f}",
        ", ".join(f"{r['best_epoch']:.0f} of {r['epochs']:.0f}" for r in runs.values()),
    ]
