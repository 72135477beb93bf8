"""A common interface for optimizers whose weights are evaluated and saved in another state."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from representer.training.averaged_sgd import NonMonotonicASGD
from representer.training.lazy_adam import LazyAdam, large_embeddings

if TYPE_CHECKING:
    from accelerate import Accelerator


class EvaluationWeights:
    """The averages of an averaging optimizer, or all steps of one that delays those of some rows.

    Args:
        optimizer: The optimizer; for all others, the methods do nothing.
        direction: ``"max"`` if larger values of the monitored metric are better.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, direction: Literal["max", "min"]) -> None:
        self._averaging = optimizer if isinstance(optimizer, NonMonotonicASGD) else None
        self._lazy = optimizer if isinstance(optimizer, LazyAdam) else None
        self._sign = 1 if direction == "min" else -1

    def training(self, model: nn.Module, accelerator: Accelerator) -> AbstractContextManager[None]:
        """Return a context manager in which large embeddings are updated in the rows of a batch.

        It has an effect in a single process on the CPU, where this is faster.
        """
        is_faster = accelerator.num_processes == 1 and accelerator.device.type == "cpu"
        if self._lazy is None or not is_faster:
            return nullcontext()
        return self._lazy.lookups(large_embeddings(model))

    def __call__(self) -> AbstractContextManager[None]:
        """Return a context manager in which the model has the weights to evaluate and save."""
        if self._lazy is not None:
            self._lazy.catch_up()
        return nullcontext() if self._averaging is None else self._averaging.averaged()

    def columns(self) -> dict[str, Any]:
        """Return additional metrics of an evaluation: the number of averaged steps."""
        if self._averaging is None:
            return {}
        return {"averaged_steps": self._averaging.averaged_steps}

    def observe(self, value: float | None) -> bool:
        """Record an evaluation, and return True if averaging starts here."""
        if self._averaging is None or value is None:
            return False
        return self._averaging.observe(self._sign * value)
