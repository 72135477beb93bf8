"""Model, training and prediction of a signal run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from representer.data.signals import Recordings, augmented
from representer.models import SignalClassifier, SignalClassifierConfig
from representer.tasks.signal.signal_config import SignalConfig
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask

EVALUATION_BATCH = 256
SAVE_EVERY = 50  # epochs; an epoch takes hardly longer than writing a checkpoint


def model_config(config: SignalConfig, recordings: Recordings) -> SignalClassifierConfig:
    """Return the configuration of the model.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    return SignalClassifierConfig(
        num_channels=len(recordings.channels),
        num_classes=len(recordings.classes),
        sampling_rate=recordings.sampling_rate,
        cell=config.cell,
        hidden_size=config.hidden_size,
        filters=config.filters,  # type: ignore[arg-type]
        filter_length=config.filter_length,
        stride=config.stride,
        num_layers=config.num_layers,
        layer_norm=config.layer_norm,
        free_phase=config.free_phase,
        channel_dropout=config.channel_dropout,
        dropout=config.dropout,
        pooling=config.pooling,  # type: ignore[arg-type]
    )


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
    signals, labels = torch.from_numpy(train.signals), torch.from_numpy(train.labels)
    order = generators.derive(seed, "order")

    def batches(epoch: int) -> list[list[int]]:
        draw = generators.generator(order, epoch)
        places = torch.randperm(len(train), generator=draw).tolist()
        size = config.batch_size
        return [places[start : start + size] for start in range(0, len(places), size)]

    def load(description: Sequence[int]) -> tuple[Tensor, Tensor]:
        places = torch.as_tensor(description)
        return signals[places], labels[places]

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        x = augmented(x) if config.augment else x
        return F.cross_entropy(model(x), y), len(y)

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        if not len(valid):  # no epoch is best, so the last weights are kept
            return {"valid_loss": float("nan"), "valid_accuracy": float("nan")}
        chances = probabilities_of(model, valid, check)
        chosen = np.clip(chances[np.arange(len(valid)), valid.labels], 1e-12, None)
        right = chances.argmax(axis=1) == valid.labels
        return {"valid_loss": float(-np.log(chosen).mean()), "valid_accuracy": float(right.mean())}

    return TrainingTask(batches, load, loss, evaluate)


@torch.no_grad()
def probabilities_of(
    model: nn.Module, recordings: Recordings, check: Callable[[], None] = lambda: None
) -> NDArray[np.float64]:
    """Return the probability of each class for each window ``(N, classes)``.

    Args:
        model: The network, in evaluation mode.
        recordings: Standardized windows.
        check: Called after every batch.
    """
    device = next(model.parameters()).device
    batches = []
    for windows in torch.from_numpy(recordings.signals).split(EVALUATION_BATCH):
        batches.append(model(windows.to(device)).double().softmax(dim=1).cpu().numpy())
        check()
    return np.concatenate(batches)
