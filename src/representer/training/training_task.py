"""The task-specific part of training: four functions and two optional ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn


class Loss(NamedTuple):
    """The loss of a batch.

    Attributes:
        objective: What is made smaller, a mean over the examples.
        examples: How many it is of.
        shown: The mean that is logged, where it is not the objective: one without penalties.
    """

    objective: Tensor
    examples: int
    shown: Tensor | None = None


class Carried(Protocol):
    """State that a task carries from batch to batch, such as that of a recurrence."""

    def state_dict(self) -> Any:
        """Return it as a checkpoint can hold it."""
        ...

    def load_state_dict(self, saved: Any) -> None:
        """Go on from what `state_dict` returned."""
        ...


@dataclass(frozen=True)
class TrainingTask:
    """The task-specific part of a training run.

    Args:
        batches: ``batches(epoch)`` lists the batches of an epoch by their descriptions, in order.
            It must be a pure function: the position in it is all that a checkpoint keeps. A
            description is a sequence of examples, such as their indices; where several processes
            train one model, each loads its share of it.
        load: ``load(description)`` makes the batch: tensors, alone or in tuples, lists and dicts.
            The trainer moves them to the model's device.
        loss: ``loss(model, batch)`` returns a `Loss`, or a pair of its first two.
        evaluate: ``evaluate(model, check)`` returns numbers by name. It calls ``check()`` after
            every batch, so that a signal need not wait for its end. The model comes in evaluation
            mode and gradients are off; random states are given back afterwards.
        carried: What the batches of an epoch hand on to each other; every process has its own.
        lr_scale: ``lr_scale(description)`` multiplies the learning rate of this batch alone.
    """

    batches: Callable[[int], Sequence[Sequence[Any]]]
    load: Callable[[Sequence[Any]], Any]
    loss: Callable[[nn.Module, Any], Loss | tuple[Tensor, int]]
    evaluate: Callable[[nn.Module, Callable[[], None]], Mapping[str, Any]]
    carried: Carried | None = None
    lr_scale: Callable[[Sequence[Any]], float] | None = None
