"""A training of a second's part, for tests: data, model, task, and one call for all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.state import TrainingResult
from representer.training.trainer import Trainer

N = 50
INPUTS = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS[:, 0] > 0).long()


def model() -> nn.Module:
    with generators.initializing(1):
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))


def batches(epoch: int) -> list[list[int]]:
    order = torch.randperm(N, generator=generators.generator(1, "order", epoch)).tolist()
    return [order[i : i + 8] for i in range(0, N, 8)]


def loss(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
    return nn.functional.cross_entropy(module(batch[0]), batch[1]), len(batch[1])


def accuracy(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
    check()
    return {"accuracy": (module(INPUTS).argmax(1) == LABELS).double().mean().item()}


def task(**changes: Any) -> TrainingTask:
    parts: dict[str, Any] = {
        "batches": batches, "load": lambda rows: (INPUTS[rows], LABELS[rows]), "loss": loss,
        "evaluate": accuracy,
    }  # fmt: skip
    return TrainingTask(**{**parts, **changes})


def config(**changes: Any) -> TrainerConfig:
    return TrainerConfig(**{"epochs": 3, "lr": 0.05, "device": "cpu", "seed": 1, **changes})


def fit(
    out: Path,
    *,
    resume: bool = False,
    task: TrainingTask = task(),  # noqa: B008  (frozen, and shared by nobody who writes)
    network: nn.Module | None = None,
    settings: dict[str, Any] | None = None,
    said: list[str] | None = None,
    callbacks: Sequence[Callable[[dict[str, Any]], Any]] = (),
    **changes: Any,
) -> TrainingResult:
    report = pytest.fail if said is None else said.append
    with RunFolder(out, resume=resume, report=report) as run:
        options = {"settings": settings, "callbacks": callbacks}
        return Trainer(network or model(), task, config(**changes), run, **options).fit()


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def scripted(values: list[float | None]) -> Callable[..., dict[str, Any]]:
    """Return an evaluation that gives these numbers, one after the other."""
    left = iter(values)
    return lambda module, check: {"accuracy": next(left)}
