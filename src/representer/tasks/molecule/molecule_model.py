"""Model, training and prediction of a molecule run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from representer.data.molecules import ATOM_FEATURES, BOND_FEATURES, BalancedDraws
from representer.estimators.graph_batches import Arguments, collate, outputs_of
from representer.models import GraphEnsemble, GraphRegressorConfig
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import MoleculeData
from representer.tasks.molecule.molecule_targets import Targets
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask


def model_config(config: MoleculeConfig, targets: Targets) -> GraphRegressorConfig:
    """Return the configuration of each member of the model."""
    return GraphRegressorConfig(
        in_channels=len(ATOM_FEATURES[config.features]),
        outputs=sum(targets.widths),
        edge_dim=len(BOND_FEATURES),
        network=config.network,
        hidden_size=config.hidden_size,
        depth=config.depth,
        order=config.order,
        decay=config.decay if config.decay in ("learned", "gated") else float(config.decay),
        readout=config.readout,  # type: ignore[arg-type]
        gate_scale=config.gate_scale,
        initial=config.initial,
        dropout=config.dropout,
    )


def build_model(config: MoleculeConfig, targets: Targets) -> GraphEnsemble:
    """Return the model with initial weights, which depend only on the seed."""
    with generators.initializing(config.seed):
        return GraphEnsemble(model_config(config, targets), config.members)


def trainer_config(config: MoleculeConfig) -> TrainerConfig:
    """Return the configuration of the trainer."""
    is_by_epoch = config.lr_decay != 1 and not config.lr_decay_every
    return TrainerConfig(
        epochs=config.epochs,
        max_steps=config.max_steps or None,
        evaluate_every=config.evaluate_every or None,
        lr=config.lr,
        lr_decay=config.lr_decay if is_by_epoch else None,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm or None,
        patience=config.patience or None,
        monitor="valid_loss",
        direction="min",
        seed=config.seed,
        threads=config.threads or None,
    )


def training_task(config: MoleculeConfig, data: MoleculeData) -> TrainingTask:
    """Return batches, loss and validation for the trainer.

    A batch is described by the position of each molecule, and the number of molecules seen before.
    """
    train, valid, targets = data.train, data.valid, data.targets
    order = generators.derive(config.seed, "order")
    drawn = None
    if config.balance:
        drawn = BalancedDraws(train.values[:, 0].tolist(), config.balance, order)

    def batches(epoch: int) -> list[list[tuple[int, int]]]:
        if drawn is None:
            draw = generators.generator(order, epoch)
            places = torch.randperm(len(train), generator=draw).tolist()
        else:
            places = drawn.epoch(epoch)
        counted = [(place, epoch * len(train) + i) for i, place in enumerate(places)]
        size = config.batch_size
        return [counted[start : start + size] for start in range(0, len(counted), size)]

    def load(description: Sequence[tuple[int, int]]) -> tuple[Arguments, Tensor]:
        places = [place for place, _ in description]
        values = torch.from_numpy(train.values[places]).float()
        return collate([train.graphs[place] for place in places]), values

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        inputs, values = batch
        return targets.loss(model(*inputs), values), len(values)

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        return validation(targets, outputs_of(model, valid.graphs, check), valid.values)

    def lr_scale(description: Sequence[tuple[int, int]]) -> float:
        return config.lr_decay ** (description[0][1] // config.lr_decay_every)

    scale = lr_scale if config.lr_decay_every else None
    return TrainingTask(batches, load, loss, evaluate, lr_scale=scale)


def validation(
    targets: Targets, outputs: NDArray[np.float64], values: NDArray[np.float64]
) -> dict[str, float]:
    """Return the validation metrics of the mean prediction of the members.

    ``valid_loss`` is the mean squared error in units of training, or the mean negative log
    probability, over all known values; ``valid_rmse`` is in the unit of a single target.
    """
    return targets.coded.metrics(outputs, values)
