"""One optimization step: loss, gradient, clipping, update; a NaN never updates the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.training.captured_losses import CapturedLosses, can_capture
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import Loss, TrainingTask
from representer.training.workers import share, totals

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step.

    Attributes:
        loss_sum: Loss summed over the examples.
        count: Number of examples.
        fault: A clause that states what is not finite, in which case nothing is updated.
    """

    loss_sum: float
    count: int
    fault: str | None = None


class TrainingStep:
    """Performs optimization steps.

    The loss is the mean over the examples of all processes. Each process weights its mean by its
    fraction of the global count, so that an uneven last batch gives the same gradient as in a
    single process.

    Args:
        accelerator: Device, precision and processes.
        model: The model, prepared by the accelerator.
        optimizer: The optimizer, prepared by the accelerator.
        task: Provides batches and losses.
        config: Settings of gradient clipping and of CUDA graphs.
        report: Receives the reason if steps run without the requested graph.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        task: TrainingTask,
        config: TrainerConfig,
        report: Callable[[str], object],
    ) -> None:
        self._accelerator, self._model, self._optimizer = accelerator, model, optimizer
        self._task, self._config = task, config
        self._captured = None
        if config.cuda_graph and can_capture(accelerator, task.carried):
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            self._captured = CapturedLosses(self._compute, trained, task.carried, report)

    def __call__(self, description: Sequence[Any]) -> StepOutcome:
        """Perform the step of one batch."""
        from accelerate.utils import recursively_apply, send_to_device

        accelerator = self._accelerator
        part, is_stand_in = share(accelerator, description)
        batch = self._task.load(part)
        is_pinned = accelerator.device.type == "cuda"  # the copy then runs beside the computation
        if is_pinned:
            batch = recursively_apply(Tensor.pin_memory, batch)
        batch = send_to_device(batch, accelerator.device, non_blocking=is_pinned)
        if self._captured is None:
            loss, examples, shown = self._loss(batch)
        else:
            loss, examples, shown = self._captured(batch)
        weight = 0 if is_stand_in else examples
        mean = loss.item() if shown is None else shown.item()
        loss_sum, total = totals(accelerator, mean * weight, weight)
        if not math.isfinite(loss_sum):
            return StepOutcome(loss_sum, int(total), f"the loss is {loss_sum}")
        if accelerator.num_processes > 1:
            loss = loss * (weight * accelerator.num_processes / total)
        if self._captured is None:
            self._optimizer.zero_grad()
            accelerator.backward(loss)
        norm = self._clip()
        # in float16, scaled gradients overflow occasionally; the scaler skips such a step
        if accelerator.scaler is None and not math.isfinite(norm):
            return StepOutcome(loss_sum, int(total), f"the norm of the gradient is {norm}")
        self._optimizer.step()
        return StepOutcome(loss_sum, int(total))

    def _loss(self, batch: Any) -> Loss:
        result = self._task.loss(self._model, batch)
        return result if isinstance(result, Loss) else Loss(*result)

    def _compute(self, batch: Any) -> Loss:
        """Return the loss of a batch after adding its gradients."""
        loss = self._loss(batch)
        self._accelerator.backward(loss.objective)
        return loss

    def _clip(self) -> float:
        """Clip the gradients and return their norm before clipping."""
        parameters = [_dense(p) for p in self._model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self._config.clip_value is not None:
            self._accelerator.clip_grad_value_(parameters, self._config.clip_value)
        if self._config.clip_norm is not None:
            self._accelerator.clip_grad_norm_(parameters, self._config.clip_norm)
        return norm.item()


def _dense(parameter: Tensor) -> Tensor:
    """Return a parameter, or a tensor whose gradient is the values of its sparse gradient."""
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter
    parameter.grad = parameter.grad.coalesce()
    values = parameter.grad.values()  # of the same memory
    stand_in = values.detach()
    stand_in.grad = values
    return stand_in


def require_trainable(model: nn.Module) -> None:
    """Raise an `ArgumentError` for a model whose parameters are all frozen, or that has none."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        name, expected = type(model).__name__, "a model with parameters to train"
        raise ArgumentError("model", name, expected, hint="Call requires_grad_() on some.")


def set_learning_rate(
    optimizer: torch.optim.Optimizer, config: TrainerConfig, epoch: int, scale: float
) -> None:
    """Set the learning rate of a batch.

    It is computed from the initial rate, not from the previous one, so that resumed runs agree.

    Args:
        optimizer: The optimizer, whose groups keep the initial rate as ``initial_lr``.
        config: Settings of the decay.
        epoch: Completed epochs.
        scale: Additional factor of this batch.
    """
    decay = 1.0 if config.lr_decay is None else config.lr_decay
    factor = scale * decay ** max(0, epoch + 1 - config.lr_decay_from)
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
