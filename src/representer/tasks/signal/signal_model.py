"""Model, training and prediction of a signal run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from representer.data.signals import Recordings, Standardization
from representer.estimators import fitting
from representer.estimators.fitting import Examples, outputs_of
from representer.estimators.signal import augmentation, network_config
from representer.estimators.signal_inputs import SignalInputs
from representer.estimators.signal_parameters import SignalParameters
from representer.estimators.targets import Classes
from representer.models import SignalClassifier, SignalClassifierConfig
from representer.tasks.signal.signal_config import SignalConfig
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask

_OF_THE_NETWORK = (
    "cell", "hidden_size", "filters", "filter_length", "stride", "num_layers", "layer_norm",
    "free_phase", "channel_dropout", "dropout", "pooling",
)  # fmt: skip
SAVE_EVERY = 50  # epochs; an epoch takes hardly longer than writing a checkpoint


def model_config(config: SignalConfig, recordings: Recordings) -> SignalClassifierConfig:
    """Return the configuration of the model.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    chosen = {name: getattr(config, name) for name in _OF_THE_NETWORK}
    parameters = SignalParameters(sampling_rate=recordings.sampling_rate, **chosen)
    return network_config(parameters, len(recordings.channels), len(recordings.classes))


def build_model(config: SignalConfig, recordings: Recordings, seed: int) -> SignalClassifier:
    """Return the model with initial weights, which depend only on the seed."""
    with generators.initializing(seed):
        return SignalClassifier(model_config(config, recordings))


def trainer_config(config: SignalConfig, seed: int, *, is_shown: bool) -> TrainerConfig:
    """Return the configuration of the trainer."""
    return TrainerConfig(
        epochs=config.epochs,
        lr=config.lr,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm or None,
        patience=config.patience or None if config.valid_fraction else None,
        monitor=f"valid_{config.monitor}",
        direction="min" if config.monitor == "loss" else "max",
        seed=seed,
        threads=config.threads or None,
        save_every_epochs=SAVE_EVERY,
        show_progress=is_shown,
    )


def training_task(
    config: SignalConfig, train: Recordings, valid: Recordings, seed: int
) -> TrainingTask:
    """Return batches, loss and validation for the trainer; all windows are in memory.

    Args:
        config: Options of the run.
        train: Standardized training windows.
        valid: Standardized validation windows; none without early stopping.
        seed: Random seed of the order.
    """
    inputs, target = _inputs(train), Classes(train.classes)
    examples, held_out = (Examples(list(part.signals), part.labels) for part in (train, valid))
    augment = augmentation if config.augment else None
    size = config.batch_size
    task = fitting.training_task(inputs, target, examples, held_out, size, seed, augment)
    if len(valid):
        return task
    nothing = {"valid_loss": math.nan, "valid_accuracy": math.nan}
    return replace(task, evaluate=lambda model, check: nothing)  # the last weights are kept


def probabilities_of(model: nn.Module, recordings: Recordings) -> NDArray[np.float64]:
    """Return the probability of each class for each window ``(N, classes)``.

    Args:
        model: The network, in evaluation mode.
        recordings: Standardized windows.
    """
    outputs = outputs_of(model, _inputs(recordings), list(recordings.signals))
    return Classes(recordings.classes).probabilities(outputs)


def _inputs(recordings: Recordings) -> SignalInputs:
    """Return the inputs of windows that are standardized already."""
    return SignalInputs(Standardization("none"), len(recordings.channels))
