"""One interface for optimizers that average weights and those that do not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

from representer.training.averaged_sgd import NonMonotonicASGD


class WeightAveraging:
    """Tells an optimizer how evaluations went, and puts its means in place of the weights.

    Args:
        optimizer: Of the training; nothing is done with one that has no means.
        direction: Whether more or less of the monitored metric is better.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, direction: Literal["max", "min"]) -> None:
        self._optimizer = optimizer if isinstance(optimizer, NonMonotonicASGD) else None
        self._sign = 1 if direction == "min" else -1

    def weights(self) -> AbstractContextManager[None]:
        """Return a block in which the weights are those to evaluate and to keep."""
        return nullcontext() if self._optimizer is None else self._optimizer.averaged()

    def columns(self) -> dict[str, Any]:
        """Return what belongs to the row of an evaluation: how many weights the means are of."""
        if self._optimizer is None:
            return {}
        return {"averaged_steps": self._optimizer.averaged_steps}

    def observe(self, value: float | None) -> bool:
        """Take note of an evaluation, and return whether weights are averaged from here on."""
        if self._optimizer is None or value is None:
            return False
        return self._optimizer.observe(self._sign * value)
