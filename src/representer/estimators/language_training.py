"""The network of a language model, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from representer.data.language import Level, fixed_segments, fold, variable_segments
from representer.errors import ArgumentError, DataError
from representer.estimators.carried_state import CarriedState, detached, example_state
from representer.estimators.fitting import epochs_for, trainer_options
from representer.estimators.language_parameters import LanguageParameters
from representer.estimators.language_predictors import figures, negative_log_likelihood
from representer.estimators.parameters import DECAYS, in_common
from representer.functional import activation_regularization
from representer.models import LanguageModel, LanguageModelConfig
from representer.training import generators
from representer.training.averaged_sgd import NonMonotonicASGD
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import Loss, TrainingTask

RECENT = 5  # validations that do not count where the last is compared with those before


def network_config(parameters: LanguageParameters, vocabulary_size: int) -> LanguageModelConfig:
    """Return the configuration of the network.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    p = parameters
    own: dict[str, Any] = {
        "vocabulary_size": vocabulary_size,
        "embedding_size": p.embedding_size or p.hidden_size,
        "decay": p.decay if p.decay in DECAYS else float(p.decay),
        "is_locked": p.locked,
        "cutoffs": tuple(p.cutoffs),
    }
    return LanguageModelConfig(**in_common(p, LanguageModelConfig) | own)


def streams_for(parameters: LanguageParameters, tokens: int) -> int:
    """Return the number of parallel streams: by default 32, fewer for less than 11,000 tokens."""
    by_size = int(np.clip(tokens // (10 * parameters.unroll), 1, 32))
    return parameters.batch_size or by_size


def check_texts(
    parameters: LanguageParameters, vocabulary_size: int, train: Tensor, valid: Tensor
) -> None:
    """Check the lengths of both texts and the size of the vocabulary before training.

    Raises:
        DataError: A text is too short.
        ArgumentError: The embedding does not fit into memory.
    """
    texts = ("training", train, 2 * streams_for(parameters, len(train))), ("validation", valid, 1)
    for name, tokens, least in texts:
        if len(tokens) <= least:
            problem = f"the {name} text has {len(tokens)} token(s); more than {least} are needed"
            raise DataError(problem, fix="Give a longer text; a file is passed as pathlib.Path.")
    check_memory(parameters, vocabulary_size, available())


def trainer_config(parameters: LanguageParameters, tokens: int, seed: int) -> TrainerConfig:
    """Return the configuration of the trainer; what is not given follows the number of tokens."""
    p = parameters
    epochs = p.epochs or epochs_for(tokens // (streams_for(p, tokens) * p.unroll))
    recent = RECENT if p.optimizer == "asgd" else None
    loss = {"monitor": "valid_loss", "direction": "min"}
    return trainer_options(p, epochs, seed, nonmonotone=recent, **loss)


def optimizer_for(parameters: LanguageParameters, model: nn.Module) -> torch.optim.Optimizer | None:
    """Return the optimizer; None for the trainer's own Adam."""
    p = parameters
    if p.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), p.lr, weight_decay=p.weight_decay)
    if p.optimizer in ("nt-asgd", "asgd"):
        return NonMonotonicASGD(
            model.parameters(),
            p.lr,
            p.weight_decay,
            RECENT,
            starts_averaging=p.optimizer == "asgd",
        )
    return None


def training_task(
    parameters: LanguageParameters, train: Tensor, valid: Tensor, model: LanguageModel, seed: int
) -> TrainingTask:
    """Return segments, loss and validation for the trainer.

    A batch is described by (stream, start, length) of each of its streams.
    """
    p, streams = parameters, streams_for(parameters, len(train))
    level: Level = p.level  # type: ignore[assignment]
    inputs, targets = fold(train, streams)
    carried = CarriedState(lambda rows: example_state(model, rows))
    order = generators.derive(seed, "order")

    def batches(epoch: int) -> list[list[tuple[int, int, int]]]:
        steps = len(inputs)
        if p.variable_unroll:
            segments = variable_segments(steps, p.unroll, order, epoch)
        else:
            segments = fixed_segments(steps, p.unroll)
        return [[(row, *segment) for row in range(streams)] for segment in segments]

    def load(description: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor, bool]:
        rows = [row for row, _, _ in description]
        _, start, length = description[0]
        span = slice(start, start + length)
        return inputs[span, rows].contiguous(), targets[span, rows].contiguous(), start == 0

    def loss(wrapped: nn.Module, batch: Any) -> Loss:
        tokens, following, is_first = batch
        result = wrapped(tokens, None if is_first else carried.value)
        carried.value = detached(result.state)
        own = cast(LanguageModel, getattr(wrapped, "module", wrapped))
        mean = own.output.loss(result.features, following) / following.numel()
        penalty = activation_regularization(
            result.features, result.raw, p.activation_penalty, p.slowness_penalty
        )
        return Loss(mean + penalty, following.numel(), mean)

    def evaluate(trained: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        own = cast(LanguageModel, trained)
        nats = negative_log_likelihood(own, valid, p.evaluation_rows, check)
        metrics = figures(nats, len(valid) - 1, level)
        return {f"valid_{name}": value for name, value in metrics.items() if name != "tokens"}

    return TrainingTask(
        batches,
        load,
        loss,
        evaluate,
        carried=carried,
        lr_scale=lambda description: description[0][2] / p.unroll,
    )


_BYTES = 4  # of a float32
_COPIES = {"adam": 6, "sgd": 4, "nt-asgd": 6, "asgd": 6}
"""Weights, gradient, best and saved weights; moments, or averages and current weights."""


def available() -> int | None:
    """Return the available memory in bytes; None if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * int(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def check_memory(parameters: LanguageParameters, vocabulary_size: int, free: int | None) -> None:
    """Refuse a vocabulary whose embedding does not fit into memory in training.

    Raises:
        ArgumentError: If it needs more; the message states the size.
    """
    size = parameters.embedding_size or parameters.hidden_size
    weights = vocabulary_size * (size + 1) * _BYTES * _COPIES[parameters.optimizer]
    logits = 512 * vocabulary_size * _BYTES * 2  # rows of the softmax at a time
    if free is None or weights + logits <= free:
        return
    raise ArgumentError(
        "the vocabulary",
        f"{vocabulary_size:,} tokens of {size} numbers",
        f"less than {(weights + logits) / 2**30:.1f} GiB for it in training; "
        f"{free / 2**30:.1f} GiB are free",
        hint="Raise min_count, or lower max_vocabulary or embedding_size.",
    )
