"""The weights that are evaluated and saved, where these are not the ones that are trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from representer.training.averaged_sgd import NonMonotonicASGD
from representer.training.lazy_adam import LazyAdam, large_embeddings
from representer.training.trainer_config import TrainerConfig
from representer.training.weight_average import EVERY, WeightAverage

if TYPE_CHECKING:
    from accelerate import Accelerator


class EvaluationWeights:
    """Averages of the weights, and all steps of an optimizer that delays those of some rows.

    Args:
        model: The model that is trained.
        optimizer: The optimizer; one that averages weights itself, or that delays steps.
        config: Settings of the training loop.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: TrainerConfig,
    ) -> None:
        self._averaging = optimizer if isinstance(optimizer, NonMonotonicASGD) else None
        self._lazy = optimizer if isinstance(optimizer, LazyAdam) else None
        self._sign = 1 if config.direction == "min" else -1
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        is_averaged = config.average_weights and self._averaging is None
        self._average = WeightAverage(weights) if is_averaged else None

    def training(self, model: nn.Module, accelerator: Accelerator) -> AbstractContextManager[None]:
        """Return a context manager in which large embeddings are updated in the rows of a batch.

        It has an effect in a single process on the CPU, where this is faster.
        """
        is_faster = accelerator.num_processes == 1 and accelerator.device.type == "cpu"
        if self._lazy is None or not is_faster:
            return nullcontext()
        return self._lazy.lookups(large_embeddings(model))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Give the model the weights to evaluate and save within a block."""
        if self._lazy is not None:
            self._lazy.catch_up()
        average = self._averaging or self._average
        with nullcontext() if average is None else average.averaged():
            yield

    def count_step(self, step: int) -> None:
        """Record that an optimization step is completed."""
        if self._average is not None and step % EVERY == 0:
            if self._lazy is not None:
                self._lazy.catch_up()
            self._average.update()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the averages that no optimizer has, or None."""
        return None if self._average is None else self._average.state_dict()

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `state_dict`."""
        if self._average is not None and state is not None:
            self._average.load_state_dict(state)

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
