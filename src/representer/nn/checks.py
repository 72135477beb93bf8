"""Checks of the options of layers."""

from __future__ import annotations

from representer.errors import ArgumentError
from representer.numbers import is_integer


def check_flags(**options: bool) -> None:
    """Check options that are either True or False.

    Raises:
        ArgumentError: If one is something else, such as 0, 2 or ``"False"``, which is true.
    """
    for name, value in options.items():
        if type(value) is not bool:
            raise ArgumentError(name, value, "True or False")


def check_size(name: str, value: int) -> int:
    """Return a size if it is valid.

    Raises:
        ArgumentError: If it is not a positive integer.
    """
    if not is_integer(value, 1):
        raise ArgumentError(name, value, "a positive integer")
    return int(value)


def check_probability(name: str, value: float) -> float:
    """Return a probability if it is valid.

    Raises:
        ArgumentError: If it is not a number in [0, 1].
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(name, value, "a number from 0 to 1")
    return float(value)
