"""A common interface for optimizers with and without weight averaging."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

from representer.training.averaged_sgd import NonMonotonicASGD


class WeightAveraging:
    """Passes evaluations to an averaging optimizer, and swaps its averages for the weights.

    Args:
        optimizer: The optimizer; without averaging, all methods do nothing.
        direction: ``"max"`` if larger values of the monitored metric are better.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, direction: Literal["max", "min"]) -> None:
        self._optimizer = optimizer if isinstance(optimizer, NonMonotonicASGD) else None
        self._sign = 1 if direction == "min" else -1

    def weights(self) -> AbstractContextManager[None]:
        """Return a context manager in which the model has the weights to evaluate and save."""
        return nullcontext() if self._optimizer is None else self._optimizer.averaged()

    def columns(self) -> dict[str, Any]:
        """Return additional metrics of an evaluation: the number of averaged steps."""
        if self._optimizer is None:
            return {}
        return {"averaged_steps": self._optimizer.averaged_steps}

    def observe(self, value: float | None) -> bool:
        """Record an evaluation, and return True if averaging starts here."""
        if self._optimizer is None or value is None:
            return False
        return self._optimizer.observe(self._sign * value)
