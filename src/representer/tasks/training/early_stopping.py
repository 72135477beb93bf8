"""Which evaluation was best, and whether to stop, from the metrics so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal


def best_index(values: Sequence[float | None], direction: Literal["max", "min"]) -> int | None:
    """Return the place of the best value; of equal ones, the first.

    Args:
        values: The monitored metric, evaluation by evaluation; None where it was not a number.
        direction: Whether more or less is better.

    Returns:
        The place, or None where no value is a number.
    """
    sign = 1 if direction == "max" else -1
    numbers = [(sign * value, -i) for i, value in enumerate(values) if value is not None]
    return -max(numbers)[1] if numbers else None


def is_exhausted(
    values: Sequence[float | None], direction: Literal["max", "min"], patience: int | None
) -> bool:
    """Return whether the last `patience` evaluations brought no new best."""
    best = best_index(values, direction)
    since_best = len(values) if best is None else len(values) - 1 - best
    return patience is not None and since_best >= patience


def has_collapsed(
    values: Sequence[float | None], direction: Literal["max", "min"], max_drop: float | None
) -> bool:
    """Return whether the last evaluation is at least `max_drop` worse than the best."""
    best = best_index(values, direction)
    if max_drop is None or best is None or values[-1] is None:
        return False
    highest = values[best]
    assert highest is not None
    return (highest - values[-1]) * (1 if direction == "max" else -1) >= max_drop


def is_above_older(
    values: Sequence[float | None], direction: Literal["max", "min"], recent: int | None
) -> bool:
    """Return whether the last evaluation is worse than the best of all but some before it.

    Args:
        values: The monitored metric, evaluation by evaluation; None where it was not a number.
        direction: Whether more or less is better.
        recent: How many before the last do not count; None for never.
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
