"""One run of the sentiment table: word vectors, model, training and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from representer.data.text import Vocabulary, WordVectors, equal_lengths
from representer.estimators import TextClassifier, saving
from representer.estimators.fitting import Examples, training_task
from representer.estimators.results import predictions_of
from representer.estimators.text import TextInputs
from representer.models import StackedClassifier, StackedClassifierConfig
from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_results import Outcome, metrics_of
from representer.training import generators
from representer.training.trainer import Trainer
from representer.training.trainer_config import TrainerConfig
from representer_papers.string_graph2017.treebank import with_vocabulary

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


def run(
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
    model = build(config, data, matrix)
    estimator: Any = TextClassifier()
    estimator.target_ = data.target
    estimator.examples_ = {name: len(data.parts[name]) for name in ("train", "valid")}
    estimator.inputs_ = inputs = _EqualLengths(data.inputs.vocabulary, "blanks", None)
    saving.describe(folder, estimator, model, {"text": "text", "label": "label"})
    train, valid = (Examples(data.encoded[name], data.values[name]) for name in ("train", "valid"))
    parameters = TextClassifier(batch_size=config.batch_size)
    task = training_task(parameters, inputs, data.target, train, valid, config.seed)
    settings = {k: v for k, v in asdict(config).items() if k != "epochs"}  # the trainer checks it
    settings["sha256"] = sorted(part.digest for part in data.parts.values())
    trainer = Trainer(model, task, trainer_config(config, threads), folder, settings=settings)
    result = trainer.fit()
    trainer.restore_best()
    estimator.network_ = model.eval()
    predictions = predictions_of(estimator, data.parts["test"].objects)
    parts = {"word vectors": model.embedding, "layers": model.layers, "output": model.output}
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    counts["all"] = sum(counts.values())
    outcome = Outcome(config.cell, predictions, result, len(task.batches(0)), counts)
    return metrics_of("text", data, outcome) | {"cover": cover}


class _EqualLengths(TextInputs):
    """Batches of documents of one length, as in the authors' code."""

    def batches(
        self, encoded: Sequence[list[int]], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        lengths = [len(document) for document in encoded]
        return lambda epoch: equal_lengths(lengths, batch_size, seed, epoch)


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
    own = coverage.words | (trained if config.embedding == "tuned" else set())
    marks = len(Vocabulary.MARKS)
    kept = [word for word in data.inputs.vocabulary.words[marks:] if word in own]
    vocabulary = Vocabulary((*Vocabulary.MARKS, *kept))
    matrix, _ = vectors.align(vocabulary, generators.generator(config.seed, "vectors"), scale)
    rows = [row for row, word in enumerate(vocabulary.words) if word in coverage.words]
    norms = matrix[rows].norm(dim=1, keepdim=True)
    matrix[rows] /= norms.clamp(min=torch.finfo(norms.dtype).tiny)
    matrix[Vocabulary.UNKNOWN] = 0
    counts = Counter(word for tokens in _words(data, "test") for word in tokens)
    cover = {"types": coverage.types, "running": coverage.running(counts)}
    return with_vocabulary(data, vocabulary), matrix, cover


def build(config: SentimentConfig, data: Data, matrix: Tensor | None) -> StackedClassifier:
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
    return [data.inputs.words(text) for text in data.parts[part].objects]
