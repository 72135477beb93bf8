"""The task-specific part of training: four functions and two optional ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn


class Loss(NamedTuple):
    """The loss of a batch.

    Attributes:
        objective: The quantity to minimize, a mean over the examples.
        examples: Number of examples.
        shown: The mean to log if it differs from the objective, for example without penalties.
    """

    objective: Tensor
    examples: int
    shown: Tensor | None = None


class Carried(Protocol):
    """State that a task carries from batch to batch, such as a recurrent state."""

    def state_dict(self) -> Any:
        """Return the state in a form that a checkpoint can store."""
        ...

    def load_state_dict(self, saved: Any) -> None:
        """Restore the result of `state_dict`."""
        ...


@dataclass(frozen=True)
class TrainingTask:
    """The task-specific part of a training run.

    Args:
        batches: ``batches(epoch)`` returns the descriptions of the batches of an epoch, in order.
            It must be a pure function: a checkpoint stores only the position in this sequence. A
            description is a sequence of examples, such as their indices; with several processes,
            each loads its part of it.
        load: ``load(description)`` creates the batch: tensors, alone or in tuples, lists and dicts.
            The trainer moves them to the model's device.
        loss: ``loss(model, batch)`` returns a `Loss`, or a tuple of its first two fields.
        evaluate: ``evaluate(model, check)`` returns metrics by name. It calls ``check()`` after
            every batch, so that a signal takes effect before the evaluation ends. The model is in
            evaluation mode and gradients are off; random states are restored afterwards.
        carried: State that the batches of an epoch pass on; each process has its own.
        lr_scale: ``lr_scale(description)`` is a factor of the learning rate for this batch only.
    """

    batches: Callable[[int], Sequence[Sequence[Any]]]
    load: Callable[[Sequence[Any]], Any]
    loss: Callable[[nn.Module, Any], Loss | tuple[Tensor, int]]
    evaluate: Callable[[nn.Module, Callable[[], None]], Mapping[str, Any]]
    carried: Carried | None = None
    lr_scale: Callable[[Sequence[Any]], float] | None = None
