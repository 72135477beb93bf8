"""The language model of a run, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from representer.data.language import fixed_segments, fold, variable_segments
from representer.estimators.carried_state import CarriedState, detached, example_state
from representer.estimators.perplexity import figures, negative_log_likelihood
from representer.functional import activation_regularization
from representer.models import LanguageModel, LanguageModelConfig
from representer.tasks.language.language_config import DECAYS, LanguageConfig
from representer.tasks.language.language_data import LanguageData
from representer.training import generators
from representer.training.averaged_sgd import NonMonotonicASGD
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import Loss, TrainingTask

RECENT = 5  # validations that do not count where the last is compared with those before


def model_config(config: LanguageConfig, vocabulary_size: int) -> LanguageModelConfig:
    """Return what the model of a run is made of."""
    return LanguageModelConfig(
        vocabulary_size=vocabulary_size,
        embedding_size=config.embedding_size or config.hidden_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        cell=config.cell,
        order=config.order,
        combine=config.combine,  # type: ignore[arg-type]
        decay=config.decay if config.decay in DECAYS else float(config.decay),  # type: ignore[arg-type]
        highway=config.highway,
        filter_length=config.filter_length,
        layer_norm=config.layer_norm,
        embedding_dropout=config.embedding_dropout,
        input_dropout=config.input_dropout,
        layer_dropout=config.layer_dropout,
        output_dropout=config.output_dropout,
        is_locked=config.locked,
        rnn_dropout=config.rnn_dropout,
        weight_dropout=config.weight_dropout,
        cutoffs=config.borders,
        initial=config.initial,  # type: ignore[arg-type]
    )


def build_model(config: LanguageConfig, vocabulary_size: int) -> LanguageModel:
    """Return the model with its first weights, which depend on the seed alone."""
    with generators.initializing(config.seed):
        return LanguageModel(model_config(config, vocabulary_size))


def trainer_config(config: LanguageConfig) -> TrainerConfig:
    """Return the trainer's part of the configuration."""
    return TrainerConfig(
        epochs=config.epochs,
        max_steps=config.max_steps or None,
        lr=config.lr,
        lr_decay=config.lr_decay if config.lr_decay != 1 else None,
        lr_decay_from=config.lr_decay_from,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm or None,
        patience=config.patience or None,
        nonmonotone=RECENT if config.optimizer == "asgd" else None,
        monitor="valid_loss",
        direction="min",
        seed=config.seed,
        threads=config.threads or None,
    )


def optimizer_for(config: LanguageConfig, model: nn.Module) -> torch.optim.Optimizer | None:
    """Return the optimizer of a run; None for the trainer's own Adam."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), config.lr, weight_decay=config.weight_decay)
    if config.optimizer in ("nt-asgd", "asgd"):
        return NonMonotonicASGD(
            model.parameters(),
            config.lr,
            config.weight_decay,
            RECENT,
            starts_averaging=config.optimizer == "asgd",
        )
    return None


def training_task(config: LanguageConfig, data: LanguageData, model: LanguageModel) -> TrainingTask:
    """Return segments, loss and validation for the trainer.

    A batch is described by (stream, start, length) of each of its streams.
    """
    inputs, targets = fold(data.corpus.train, config.batch_size)
    carried = CarriedState(lambda rows: example_state(model, rows))
    order = generators.derive(config.seed, "order")

    def batches(epoch: int) -> list[list[tuple[int, int, int]]]:
        steps = len(inputs)
        if config.variable_unroll:
            segments = variable_segments(steps, config.unroll, order, epoch)
        else:
            segments = fixed_segments(steps, config.unroll)
        return [[(row, *segment) for row in range(config.batch_size)] for segment in segments]

    def load(description: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor, bool]:
        rows = [row for row, _, _ in description]
        _, start, length = description[0]
        span = slice(start, start + length)
        return inputs[span, rows].contiguous(), targets[span, rows].contiguous(), start == 0

    def loss(wrapped: nn.Module, batch: Any) -> Loss:
        read, wanted, is_first = batch
        found = wrapped(read, None if is_first else carried.value)
        carried.value = detached(found.state)
        mean = model.output.loss(found.features, wanted) / wanted.numel()
        penalty = activation_regularization(
            found.features, found.raw, config.activation_penalty, config.slowness_penalty
        )
        return Loss(mean + penalty, wanted.numel(), mean)

    def evaluate(trained: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        own, valid = cast(LanguageModel, trained), data.corpus.valid
        nats = negative_log_likelihood(own, valid, config.evaluation_rows, check)
        found = figures(nats, len(valid) - 1, data.corpus.level)
        return {f"valid_{name}": value for name, value in found.items() if name != "tokens"}

    return TrainingTask(
        batches,
        load,
        loss,
        evaluate,
        carried=carried,
        lr_scale=lambda description: description[0][2] / config.unroll,
    )
