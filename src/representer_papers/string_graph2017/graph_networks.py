"""The networks derived from graph kernels as classifiers, trained on the outer folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from representer import nn
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer
from representer_papers.shared.graph_store import GraphBatch, GraphStore, outputs_in_batches
from representer_papers.string_graph2017.graph_sets import Fold, GraphData

EPOCHS, BATCH, UNITS, LR = 200, 32, 32, 5e-3
VALID = 9  # a ninth of the training part selects the best epoch
_EVALUATION_BATCH = 256


class GraphClassifier(torch.nn.Module):
    """A graph layer, followed by batch normalization and a linear layer.

    Args:
        row: A key of ``GRAPH_NETWORKS``.
        tags: Number of node labels.
        classes: Number of classes.
        units: Number of units of the graph layer.
    """

    def __init__(self, row: str, tags: int, classes: int, units: int) -> None:
        super().__init__()
        if row == "walk-network":
            self.layer = nn.RandomWalkKernelNN(tags, units, order=3, decay="learned")
        else:
            self.layer = nn.WLKernelNN(tags, units, depth=4, label_channels=units, sigma="relu")
        self.norm = torch.nn.BatchNorm1d(units)
        self.dropout = torch.nn.Dropout(0.5)
        self.output = torch.nn.Linear(units, classes)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Return the logits of each graph."""
        units = self.layer(
            graphs.x, graphs.edge_index, batch=graphs.batch, batch_size=len(graphs.y)
        )
        return self.output(self.dropout(F.relu(self.norm(units))))


def tested_folds(
    folder: RunFolder,
    settings: dict[str, Any],
    data: GraphData,
    folds: Sequence[Fold],
    threads: int | None,
) -> list[dict[str, Any]]:
    """Train and test a network in each outer fold, resuming interrupted runs.

    Args:
        folder: Folder of the repeat, which gets a run folder for each fold.
        settings: Its row, seed and number of epochs, and whether it is a smoke run.
        data: The graphs.
        folds: The outer folds.
        threads: Number of CPU threads; None for torch's default.
    """
    rows, store = [], _store(data)
    for k, fold in enumerate(folds):
        home = folder.path / "folds" / f"fold{k + 1}"
        with RunFolder(home, resume=home.exists()) as run:
            rows.append(_run_fold(run, settings, store, fold, k, threads))
    return rows


def _store(data: GraphData) -> GraphStore:
    """Return the graphs with one-hot node features."""
    columns: list[Any] = [graph.x for graph in data.graphs]
    tags = torch.cat(columns)[:, 0]
    kinds, numbers = torch.unique(tags, return_inverse=True)
    features = F.one_hot(numbers, len(kinds))
    sizes = [len(column) for column in columns]
    graphs = [graph.clone() for graph in data.graphs]
    for graph, x in zip(graphs, features.split(sizes), strict=True):
        graph.x = x
    return GraphStore.of(graphs, torch.from_numpy(data.labels))


def _run_fold(
    run: RunFolder, settings: dict[str, Any], store: GraphStore, fold: Fold, k: int,
    threads: int | None,
) -> dict[str, Any]:  # fmt: skip
    own = generators.derive(settings["seed"], "fold", k)
    labels = store.y.numpy()
    split = StratifiedKFold(VALID, shuffle=True, random_state=own % 2**32)
    fit, check = next(iter(split.split(fold.train, labels[fold.train])))
    train, valid = fold.train[fit], fold.train[check]
    units = 4 if settings["smoke"] else UNITS
    with generators.initializing(own):
        model = GraphClassifier(settings["row"], store.features, int(labels.max()) + 1, units)
    config = TrainerConfig(
        epochs=settings["epochs"], lr=LR, monitor="valid_score", seed=own, threads=threads,
        show_progress=False,
    )  # fmt: skip
    watched = {"row": settings["row"], "seed": settings["seed"], "fold": k + 1, "units": units}
    trainer = Trainer(model, _task(store, train, valid, own), config, run, settings=watched)
    result = trainer.fit()
    trainer.restore_best()
    model.eval()
    predictions = _logits(model, store, fold.test).argmax(dim=1)
    right = int((predictions == store.y[torch.from_numpy(fold.test)]).sum())
    epoch = None if result.best is None else result.best["epoch"]
    return {"right": right, "tested": len(fold.test), "epoch": epoch}


def _task(store: GraphStore, train: np.ndarray, valid: np.ndarray, seed: int) -> TrainingTask:
    def batches(epoch: int) -> list[list[int]]:
        order = torch.randperm(len(train), generator=generators.generator(seed, "order", epoch))
        parts = np.array_split(train[order.numpy()], -(-len(train) // BATCH))
        return [part.tolist() for part in parts]  # of nearly equal size: no batch of one

    def loss(model: torch.nn.Module, graphs: GraphBatch) -> tuple[Tensor, int]:
        return F.cross_entropy(model(graphs), graphs.y), len(graphs.y)

    def evaluate(model: torch.nn.Module, check: Callable[[], None]) -> dict[str, float]:
        logits = _logits(model, store, valid, check)
        truth = store.y[torch.from_numpy(valid)]
        accuracy = (logits.argmax(dim=1) == truth).double().mean().item()
        mean = F.cross_entropy(logits, truth).item()
        # the loss breaks ties of the accuracy
        score = accuracy - 1e-3 * min(mean, 1e2)
        return {"valid_loss": mean, "valid_accuracy": accuracy, "valid_score": score}

    return TrainingTask(batches, store, loss, evaluate)


def _logits(
    model: torch.nn.Module,
    store: GraphStore,
    numbers: np.ndarray,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    batches = outputs_in_batches(model, store, numbers, _EVALUATION_BATCH, check)
    return torch.cat([outputs for _, outputs in batches])
