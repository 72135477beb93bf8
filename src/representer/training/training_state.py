"""Training state besides model and optimizer: counters, metrics and best weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from representer.errors import CheckpointError
from representer.training.metrics_log import MetricsLog, Row

_COUNTERS = ("step", "epoch", "batch", "evaluated_at", "loss_sum", "loss_count", "seconds")


@dataclass
class TrainingState:
    """The part of a run that is neither model nor optimizer.

    Attributes:
        step: Completed optimization steps, which is the position in the data order.
        epoch: Completed epochs.
        batch: Completed batches of the current epoch.
        evaluated_at: Step of the last evaluation.
        loss_sum: Training loss since the last evaluation, summed over examples.
        loss_count: Number of examples in ``loss_sum``.
        seconds: Training time, without interruptions.
        is_stopped: A callback ended training.
        log: The metrics.
        best_weights: Weights of the best evaluation, on the CPU; None before the first evaluation.
        best_row: Metrics of the best evaluation.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    evaluated_at: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    seconds: float = 0.0
    is_stopped: bool = False
    log: MetricsLog = field(default_factory=MetricsLog)
    best_weights: dict[str, Tensor] | None = None
    best_row: Row | None = None

    @property
    def position(self) -> tuple[int, ...]:
        """The position, unique to each state of a run."""
        return self.step, self.epoch, self.batch, self.evaluated_at

    def count_step(self, loss_sum: float, count: int) -> None:
        """Record an optimization step and its loss."""
        self.step, self.batch = self.step + 1, self.batch + 1
        self.loss_sum, self.loss_count = self.loss_sum + loss_sum, self.loss_count + count

    def count_evaluation(self, metrics: Mapping[str, Any]) -> Row:
        """Record an evaluation, and return its row."""
        train_loss = self.loss_sum / self.loss_count
        self.evaluated_at, self.loss_sum, self.loss_count = self.step, 0.0, 0
        return self.log.append(self.step, self.epoch + 1, train_loss, metrics, self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the state in a form that a checkpoint can store."""
        return {
            **{name: getattr(self, name) for name in _COUNTERS},
            "is_stopped": self.is_stopped,
            "rows": self.log.rows,
            "timings": self.log.timings,
            "best_weights": self.best_weights,
            "best_row": self.best_row,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> TrainingState:
        """Create a state from the result of `to_dict`."""
        state = cls(**{name: saved[name] for name in _COUNTERS})
        state.is_stopped = saved.get("is_stopped", False)  # earlier versions did not save it
        state.log.rows, state.log.timings = list(saved["rows"]), list(saved["timings"])
        state.best_weights, state.best_row = saved["best_weights"], saved["best_row"]
        return state


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights and buffers on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set a model's weights and buffers, refusing those of a different model.

    Raises:
        CheckpointError: A name, shape or dtype differs; torch alone would cast silently.
    """
    own = model.state_dict()
    for name in [*own, *(name for name in weights if name not in own)]:
        expected, got = _describe(own.get(name)), _describe(weights.get(name))
        if got != expected:
            raise CheckpointError(
                f"the weights do not fit the model: {name} is {got}; expected {expected}"
            )
    model.load_state_dict(dict(weights))


def _describe(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"
