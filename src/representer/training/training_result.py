"""Result of a finished training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from representer.training.metrics_log import Row

Reason = Literal[
    "epochs",
    "max_steps",
    "patience",
    "nonmonotone",
    "max_drop",
    "time_limit",
    "callback",
    "diverged",
]


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        step: Completed optimization steps.
        epoch: Completed epochs.
        rows: Metrics of each evaluation.
        best: Row of the best evaluation, whose weights are in ``model.safetensors``; None if the
            monitored metric was never a number.
        reason: The rule that ended training.
        seconds: Training time, without interruptions.
    """

    step: int
    epoch: int
    rows: list[Row]
    best: Row | None
    reason: Reason
    seconds: float
