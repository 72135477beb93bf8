"""What a trainer trains: four functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


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
        loss: ``loss(model, batch)`` returns the mean loss and the number of examples it is of.
        evaluate: ``evaluate(model, check)`` returns numbers by name. It calls ``check()`` after
            every batch, so that a signal need not wait for its end. The model comes in evaluation
            mode and gradients are off; random states are given back afterwards.
    """

    batches: Callable[[int], Sequence[Sequence[Any]]]
    load: Callable[[Sequence[Any]], Any]
    loss: Callable[[nn.Module, Any], tuple[Tensor, int]]
    evaluate: Callable[[nn.Module, Callable[[], None]], Mapping[str, Any]]
