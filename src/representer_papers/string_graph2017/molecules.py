"""L17 Table 3: the Weisfeiler-Lehman network and baselines on the Clean Energy Project.

As in the authors' code: balanced batches, squared errors of the PCE itself, Adam with a learning
rate of 0.001 that is multiplied by 0.9 after every 100,000 molecules, and a test of the last
weights. A budget shortens both the training and the interval between two decays. The sets of
molecules differ in the size of the training part, for a learning curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.data.molecules import BalancedDraws
from representer.storage.run_folder import RunFolder
from representer.tasks.recipe import Request
from representer.training import generators
from representer.training.trainer import Trainer
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask
from representer_papers.shared.graph_store import GraphBatch, GraphStore, outputs_in_batches
from representer_papers.shared.lines import Measure
from representer_papers.shared.runs import Run, run_missing
from representer_papers.string_graph2017.molecule_networks import MoleculeNetwork
from representer_papers.string_graph2017.molecule_sets import (
    MoleculeSet,
    locate,
    read,
    write_baselines,
)
from representer_papers.string_graph2017.molecules_table import DECAYS, SAMPLES, write_table
from representer_papers.string_graph2017.published import (
    BY_NAME,
    MOLECULE_NETWORKS,
    MOLECULE_SETS,
    WHOLE,
)

BATCH, WIDTH, BONDS = 20, 0.05, 6
LR, LR_DECAY = 1e-3, 0.9
_EVALUATION_BATCH = 100
MEASURE = Measure(
    "graph-molecules", "test RMSE", lambda metrics: metrics["test"]["rmse"], "steps",
    planned=lambda settings: settings["epochs"] * settings["samples"] // BATCH,
)  # fmt: skip


def reproduce(request: Request) -> Path:
    """Run the missing networks in ``OUT/SET/NETWORK-seedK``, and write the table."""
    for name in request.datasets or (WHOLE,):
        home = request.out / name
        # one seed of all networks before the next, so that the table is useful early
        runs = [
            Run(home / f"{row}-seed{seed}", settings(row, seed, request.budget, request.smoke))
            for seed in request.seeds
            for row in request.cells or [row for row in MOLECULE_NETWORKS if row not in BY_NAME]
        ]
        train = partial(run, request.threads or None)
        beside = {home / "baselines.json": write_baselines}

        def load(part: int = MOLECULE_SETS[name]) -> MoleculeSet:
            return read(locate(request.data), request, part)

        run_missing(request, MEASURE, runs, load, train, beside)
    return write_table(request)


def settings(row: str, seed: int, budget: float, smoke: bool) -> dict[str, Any]:
    """Return the settings that determine a run, apart from the molecules."""
    between = max(BATCH, round(budget * SAMPLES / BATCH) * BATCH)
    return {
        "network": row,
        "seed": seed,
        "budget": budget,
        "units": 8 if smoke else MOLECULE_NETWORKS[row].units,
        "epochs": 2 if smoke else DECAYS,
        "samples": 2 * BATCH if smoke else between,  # per epoch
    }


def run(
    threads: int | None, folder: RunFolder, chosen: dict[str, Any], data: MoleculeSet
) -> dict[str, Any]:
    """Train a network, or resume its training, and return its figures.

    Raises:
        TrainingError: If the training diverges.
        Interrupted: If a signal arrives; the run can be resumed.
    """
    model = build(chosen, data.store.features)
    config = TrainerConfig(
        epochs=chosen["epochs"], lr=LR, lr_decay=LR_DECAY, monitor="valid_rmse", direction="min",
        seed=chosen["seed"], threads=threads,
    )  # fmt: skip
    watched = {**chosen, "data": data.digest}
    result = Trainer(model, training_task(chosen, data), config, folder, settings=watched).fit()
    model.eval()
    return {
        "test": {"rmse": rmse(model, data.store, data.test)},
        "valid": {"rmse": rmse(model, data.store, data.valid)},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "samples": result.step * BATCH,
        "seconds": result.seconds,
        "sizes": {name: len(getattr(data, name)) for name in ("train", "valid", "test")},
    }


def build(chosen: dict[str, Any], atoms: int) -> MoleculeNetwork:
    """Return the network with initial weights that depend on the seed alone."""
    with generators.initializing(chosen["seed"]):
        return MoleculeNetwork(chosen["network"], atoms, BONDS, chosen["units"])


def training_task(chosen: dict[str, Any], data: MoleculeSet) -> TrainingTask:
    """Return the batches, loss and validation of a network."""
    targets = data.store.y[torch.from_numpy(data.train)].tolist()
    drawn = BalancedDraws(targets, WIDTH, generators.derive(chosen["seed"], "draws") % 2**32)

    def batches(epoch: int) -> list[list[int]]:
        numbers = data.train[drawn.epoch(epoch, chosen["samples"])].tolist()
        return [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]

    def loss(model: nn.Module, graphs: GraphBatch) -> tuple[Tensor, int]:
        return F.mse_loss(model(graphs), graphs.y), len(graphs.y)

    def evaluate(model: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        return {"valid_rmse": rmse(model, data.store, data.valid, check)}

    return TrainingTask(batches, data.store, loss, evaluate)


def rmse(
    model: nn.Module,
    store: GraphStore,
    numbers: Sequence[int] | np.ndarray,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the root mean squared error over molecules."""
    total = 0.0
    for graphs, outputs in outputs_in_batches(model, store, numbers, _EVALUATION_BATCH, check):
        total += (outputs - graphs.y).double().square().sum().item()
    return math.sqrt(total / len(numbers))
