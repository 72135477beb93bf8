"""Checks of the options of a sequence layer."""

from __future__ import annotations

import warnings

from representer.errors import ArgumentError


def check_size(name: str, value: int) -> int:
    """Return a size.

    Raises:
        ArgumentError: If it is not a positive integer.
    """
    if type(value) is not int or value < 1:
        raise ArgumentError(name, value, "a positive integer")
    return value


def check_probability(name: str, value: float) -> float:
    """Return a probability.

    Raises:
        ArgumentError: If it is not a number from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(name, value, "a number from 0 to 1")
    return float(value)


def zoneout_pair(zoneout: float | tuple[float, float]) -> tuple[float, float]:
    """Return the probabilities (of the cell, of the emission) from a pair or one for both."""
    if isinstance(zoneout, tuple) and len(zoneout) != 2:
        raise ArgumentError(
            "zoneout", zoneout, "one number, or a pair (of the cell, of the output)"
        )
    cell, output = zoneout if isinstance(zoneout, tuple) else (zoneout, zoneout)
    return check_probability("zoneout", cell), check_probability("zoneout", output)


def warn_of_idle_dropout(dropout: float, num_layers: int, *, stacklevel: int) -> None:
    """Warn of dropout without effect; ``stacklevel`` points at the layer's construction."""
    if dropout and num_layers == 1:
        warnings.warn(
            f"dropout={dropout} acts between layers, and num_layers is 1. "
            "Use variational_dropout or nn.Dropout instead.",
            stacklevel=stacklevel,
        )
