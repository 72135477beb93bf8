"""One run of the sentiment table: word vectors, model, training and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from representer.data.text import Vocabulary, WordVectors, equal_lengths
from representer.estimators import TextClassifier, saving
from representer.estimators.fitting import Examples, training_task
from representer.estimators.text import TextInputs
from representer.models import StackedClassifier, StackedClassifierConfig
from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_results import Outcome, metrics_of
from representer.tasks.estimator_use import predictions_of
from representer.training import generators
from representer.training.trainer import Trainer
from representer.training.trainer_config import TrainerConfig
from representer_papers.string_graph2017.sentiment_config import SentimentConfig
from representer_papers.string_graph2017.treebank import with_vocabulary


def run(
    threads: int | None,
    folder: RunFolder,
    config: SentimentConfig,
    read: tuple[Data, WordVectors | None],
) -> dict[str, Any]:
    """Train one model, or resume its training, and return its metrics.

    Args:
        threads: Number of CPU threads; None for torch's default.
        folder: Run folder.
        config: Configuration of the run.
        read: The data, with the vocabulary of all parts, and the word vectors, if any.

    Raises:
        TrainingError: If the training diverges.
        Interrupted: If a signal arrives; the run can be resumed.
    """
    data, vectors = read
    data, matrix, cover = with_vectors(config, data, vectors)
    model = build(config, data, matrix)
    estimator: Any = TextClassifier()
    estimator.target_ = data.target
    estimator.inputs_ = inputs = _EqualLengths(data.inputs.vocabulary, "blanks", None)
    saving.describe(folder, estimator, model, {"text": "text", "label": "label"})
    train, valid = (Examples(data.encoded[name], data.values[name]) for name in ("train", "valid"))
    task = training_task(inputs, data.target, train, valid, config.batch_size, config.seed)
    trainer = Trainer(
        model,
        task,
        trainer_config(config, threads),
        folder,
        settings=_settings(config, data),
    )
    result = trainer.fit()
    trainer.restore_best()
    estimator.network_ = model.eval()
    predictions = predictions_of(folder.path, estimator, data.parts["test"].objects)
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in _parts(model)}
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

    Args:
        config: Configuration of the run.
        data: The data, with the vocabulary of all parts.
        vectors: Word vectors; None if they are learned.
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


def _settings(config: SentimentConfig, data: Data) -> dict[str, Any]:
    settings = {k: v for k, v in asdict(config).items() if k != "epochs"}  # the trainer checks it
    return {**settings, "sha256": sorted(part.digest for part in data.parts.values())}


def _words(data: Data, part: str) -> list[list[str]]:
    return [data.inputs.words(text) for text in data.parts[part].objects]


def _parts(model: StackedClassifier) -> list[tuple[str, torch.nn.Module]]:
    parts = {"word vectors": model.embedding, "layers": model.layers, "output": model.output}
    return list(parts.items())
