"""Training as in L17: molecules drawn evenly from bins, a rate that falls by molecules seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules import BalancedDraws
from representer.training import generators
from representer.training.training_task import TrainingTask


def balanced(
    task: TrainingTask, values: NDArray[np.float64], width: float, batch_size: int, seed: int
) -> TrainingTask:
    """Return the task with batches drawn evenly from bins of the target, see `BalancedDraws`.

    Args:
        task: Its batches are positions of training examples.
        values: The target of each training example ``(N,)``.
        width: Width of a bin.
        batch_size: Examples per step.
        seed: Random seed of the draws.
    """
    draws = BalancedDraws(values.tolist(), width, generators.derive(seed, "order"))

    def batches(epoch: int) -> list[list[int]]:
        rows = draws.epoch(epoch)
        return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]

    return replace(task, batches=batches)


def with_rate_by_examples(task: TrainingTask, factor: float, every: int) -> TrainingTask:
    """Return the task with a learning rate that falls after every so many examples.

    Args:
        task: Its epochs have equally many examples.
        factor: Factor of the learning rate.
        every: Examples between two such changes.
    """

    def batches(epoch: int) -> list[list[tuple[Any, int]]]:
        own = task.batches(epoch)
        seen = epoch * sum(map(len, own))
        described = []
        for batch in own:
            described.append([(one, seen + i) for i, one in enumerate(batch)])
            seen += len(batch)
        return described

    def load(description: Sequence[tuple[Any, int]]) -> Any:
        return task.load([one for one, _ in description])

    def lr_scale(description: Sequence[tuple[Any, int]]) -> float:
        return factor ** (description[0][1] // every)

    return replace(task, batches=batches, load=load, lr_scale=lr_scale)
