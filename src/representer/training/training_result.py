"""Result of a finished training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from representer.training.metrics_log import Row

Reason = Literal[
    "epochs", "max_steps", "patience", "nonmonotone", "max_drop", "time_limit", "callback"
]


@dataclass(frozen=True)
class TrainingResult:
    """The end of a training.

    Attributes:
        step: Optimization steps done.
        epoch: Whole epochs done.
        rows: The metrics of every evaluation.
        best: The row of the best one, whose weights are in ``model.safetensors``; None if the
            monitored metric never was a number.
        reason: Why it ended.
        seconds: Time spent, interruptions not counted.
    """

    step: int
    epoch: int
    rows: list[Row]
    best: Row | None
    reason: Reason
    seconds: float
