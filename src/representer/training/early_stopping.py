"""Find the best evaluation and decide when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from representer.training.trainer_config import TrainerConfig


def best_index(values: Sequence[float | None], direction: Literal["max", "min"]) -> int | None:
    """Return the index of the best value, the first of equal ones.

    Args:
        values: The monitored metric, evaluation by evaluation; None where it was not a number.
        direction: ``"max"`` if larger values are better.

    Returns:
        The index, or None if no value is a number.
    """
    sign = 1 if direction == "max" else -1
    numbers = [(sign * value, -i) for i, value in enumerate(values) if value is not None]
    return -max(numbers)[1] if numbers else None


def is_exhausted(
    values: Sequence[float | None], direction: Literal["max", "min"], patience: int | None
) -> bool:
    """Return True if none of the last `patience` evaluations is a new best."""
    best = best_index(values, direction)
    since_best = len(values) if best is None else len(values) - 1 - best
    return patience is not None and since_best >= patience


def has_collapsed(
    values: Sequence[float | None], direction: Literal["max", "min"], max_drop: float | None
) -> bool:
    """Return True if the last evaluation is at least `max_drop` worse than the best."""
    best = best_index(values, direction)
    if max_drop is None or best is None or values[-1] is None:
        return False
    highest = values[best]
    assert highest is not None
    return (highest - values[-1]) * (1 if direction == "max" else -1) >= max_drop


def is_above_older(
    values: Sequence[float | None], direction: Literal["max", "min"], recent: int | None
) -> bool:
    """Return True if the last evaluation is worse than the best of all but the most recent ones.

    Args:
        values: The monitored metric, evaluation by evaluation; None where it was not a number.
        direction: ``"max"`` if larger values are better.
        recent: The number of evaluations before the last to ignore; None: never True.
    """
    if recent is None:
        return False
    older = values[: max(0, len(values) - 1 - recent)]
    best = best_index(older, direction)
    if best is None or values[-1] is None:
        return False
    lowest = older[best]
    assert lowest is not None
    return values[-1] > lowest if direction == "min" else values[-1] < lowest


def reason(
    values: Sequence[float | None], config: TrainerConfig
) -> Literal["patience", "nonmonotone", "max_drop"] | None:
    """Return the early stopping rule that ends training now, or None."""
    if is_exhausted(values, config.direction, config.patience):
        return "patience"
    if is_above_older(values, config.direction, config.nonmonotone):
        return "nonmonotone"
    return "max_drop" if has_collapsed(values, config.direction, config.max_drop) else None
