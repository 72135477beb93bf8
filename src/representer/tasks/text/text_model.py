"""Model, training and prediction of a text run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from representer.data.text import Coverage, WordVectors, collate, length_buckets
from representer.models import SequenceClassifier, SequenceClassifierConfig
from representer.tasks.text.text_config import DECAYS, TextConfig
from representer.tasks.text.text_data import TextData
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask

EVALUATION_BATCH = 256


def build_model(
    config: TextConfig, data: TextData, vectors: WordVectors | None
) -> tuple[SequenceClassifier, Coverage | None]:
    """Return the classifier with initial weights, which depend only on the seed.

    Args:
        config: Options of the run.
        data: Data of the run.
        vectors: Pretrained word vectors; they set the size of the embedding.
    """
    is_padded = config.pooling == "padded_mean"
    chosen = SequenceClassifierConfig(
        vocabulary_size=len(data.vocabulary),
        num_classes=len(data.classes),
        cell=config.cell,
        embedding_size=vectors.dimensions if vectors else config.embedding_size,
        hidden_size=config.hidden_size,
        filter_length=config.filter_length,
        order=config.order,
        decay=config.decay if config.decay in DECAYS else float(config.decay),
        num_layers=config.num_layers,
        bidirectional=config.bidirectional,
        layer_norm=config.layer_norm,
        forget_bias=config.forget_bias,
        learn_static_gates=config.learn_static_gates,
        dropout=config.dropout,
        head_size=config.hidden_size,
        pooling="padded_mean" if is_padded else "mean",
        max_length=config.max_length if is_padded else None,
        padding_index=data.vocabulary.PAD,
    )
    with generators.initializing(config.seed):
        model = SequenceClassifier(chosen)
    if vectors is None:
        model.embedding.weight.requires_grad_(not config.freeze_embeddings)
        return model, None
    generator = generators.generator(config.seed, "vectors")
    matrix, coverage = vectors.align(data.vocabulary, generator)
    model.set_vectors(matrix, freeze=config.freeze_embeddings)
    return model, coverage


def trainer_config(config: TextConfig) -> TrainerConfig:
    """Return the configuration of the trainer."""
    return TrainerConfig(
        epochs=config.epochs,
        max_steps=config.max_steps or None,
        evaluate_every=config.evaluate_every or None,
        lr=config.lr,
        clip_norm=config.clip_norm or None,
        clip_value=config.clip_value or None,
        patience=config.patience or None,
        monitor="valid_accuracy",
        seed=config.seed,
        threads=config.threads or None,
    )


def training_task(config: TextConfig, data: TextData) -> TrainingTask:
    """Return batches, loss and evaluation for the trainer."""
    order = generators.derive(config.seed, "order")
    return classification_task(
        data, lambda lengths, epoch: length_buckets(lengths, config.batch_size, order, epoch)
    )


def classification_task(
    data: TextData, batches: Callable[[Sequence[int], int], Sequence[Sequence[int]]]
) -> TrainingTask:
    """Return the training task of a classifier.

    Args:
        data: Data of the run.
        batches: Pure function from document lengths and epoch to batches of positions.
    """
    documents = [data.vocabulary.encode(tokens) for tokens in data.train.tokens]
    lengths = [len(document) for document in documents]
    valid = [data.vocabulary.encode(tokens) for tokens in data.valid.tokens]
    truth = np.asarray(data.valid.labels)

    def load(positions: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        labels = torch.tensor([data.train.labels[i] for i in positions])
        return (*collate([documents[i] for i in positions]), labels)

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        tokens, token_counts, labels = batch
        return F.cross_entropy(model(tokens, token_counts), labels), len(labels)

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        predicted = probabilities(model, valid, check)
        of_truth = np.clip(predicted[np.arange(len(truth)), truth], 1e-12, None)
        right = predicted.argmax(axis=1) == truth
        return {
            "valid_loss": -float(np.log(of_truth).mean()),
            "valid_accuracy": float(right.mean()),
        }

    return TrainingTask(lambda epoch: batches(lengths, epoch), load, loss, evaluate)


def probabilities(
    model: nn.Module,
    documents: Sequence[Sequence[int]],
    check: Callable[[], None] = lambda: None,
) -> NDArray[np.float64]:
    """Return the probability of every class ``(N, C)``, in the order of the documents.

    Args:
        model: The classifier, in evaluation mode.
        documents: Word ids of each document.
        check: Called after every batch.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(documents)), key=lambda i: len(documents[i]))
    classes = cast(SequenceClassifier, model).config.num_classes
    result = np.empty((len(documents), classes))
    for start in range(0, len(order), EVALUATION_BATCH):
        rows = order[start : start + EVALUATION_BATCH]
        tokens, lengths = collate([documents[i] for i in rows])
        with torch.no_grad():
            logits = model(tokens.to(device), lengths.to(device))
        result[rows] = logits.double().softmax(dim=-1).cpu().numpy()
        check()
    return result
