"""Losses and gradients of batches, replayed from a CUDA graph for every shape that repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from representer.training.captured_calls import Captured, CapturedCalls, Graph, Report
from representer.training.training_task import Loss

if TYPE_CHECKING:
    from accelerate import Accelerator


def can_capture(accelerator: Accelerator, carried: Any) -> bool:
    """Return True if training steps can be captured.

    They run on one CUDA device, in one process and without scaled gradients, and the state that the
    task carries, if any, is in an attribute ``value``.
    """
    is_single = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    is_carried = carried is None or hasattr(carried, "value")
    return is_single and accelerator.scaler is None and is_carried


class CapturedLosses(CapturedCalls):
    """Computes losses and gradients, with one launch for a batch whose shapes were met before.

    The inputs of a graph are the tensors of the batch and of the state that the task carries. The
    optimizer runs without a graph.

    Args:
        compute: Computes the loss of a batch on the device and adds its gradients.
        parameters: The trained parameters.
        carried: State between batches, in its attribute ``value``; None without one.
        report: Receives the reason if a batch cannot be captured; all others run without a graph.
        make: Makes a graph; by default a `CudaGraph`.
    """

    def __init__(
        self,
        compute: Callable[[Any], Loss],
        parameters: Sequence[nn.Parameter],
        carried: Any,
        report: Report,
        make: Callable[[], Graph] | None = None,
    ) -> None:
        super().__init__(self._step, report, make)
        self._compute, self._parameters, self._carried = compute, parameters, carried
        self._buffers: dict[nn.Parameter, Tensor] = {}
        self._graded: dict[Captured, list[nn.Parameter]] = {}

    def __call__(self, batch: Any) -> Loss:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the loss of a batch, after replacing the gradients."""
        loss, state = super().__call__(batch, getattr(self._carried, "value", None))
        self._carry(state)
        return loss

    def _step(self, batch: Any, state: Any) -> tuple[Loss, Any]:
        """Return the loss of a batch and the state after it; gradients are added to those there."""
        self._carry(state)
        loss = self._compute(batch)
        shown = loss.shown if loss.shown is None else loss.shown.detach()
        found = Loss(loss.objective.detach(), loss.examples, shown)
        return found, getattr(self._carried, "value", None)

    def _directly(self, *arguments: Any) -> Any:
        self._clear()
        return self._step(*arguments)

    def _captured(self, leaves: Sequence[Any], form: Any) -> Captured:
        """Record a graph that fills the gradients of the parameters that had one just before."""
        graded = [parameter for parameter in self._parameters if parameter.grad is not None]
        for parameter in graded:
            self._buffers.setdefault(parameter, torch.zeros_like(parameter))
        self._use_buffers(graded)
        captured = super()._captured(leaves, form)
        self._graded[captured] = graded
        return captured

    def _recorded(self, *arguments: Any) -> Any:
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        return self._step(*arguments)

    def _replayed(self, captured: Captured) -> Any:
        self._clear()
        self._use_buffers(self._graded[captured])
        return super()._replayed(captured)

    def _use_buffers(self, parameters: Sequence[nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.grad = self._buffers[parameter]

    def _carry(self, state: Any) -> None:
        if self._carried is not None:
            self._carried.value = state

    def _clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
