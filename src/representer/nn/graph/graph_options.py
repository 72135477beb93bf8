"""Checks of the options of a graph layer."""

from __future__ import annotations

from typing import Any, Literal

from representer.errors import ArgumentError
from representer.functional import nonlinearity

DecayOption = float | Literal["learned", "gated"]
CombineOption = Literal["multiply", "add"]


def check_decay(decay: Any) -> DecayOption:
    """Return the decay.

    Raises:
        ArgumentError: If it is neither a non-negative number nor one of the names.
    """
    is_number = isinstance(decay, (int, float)) and not isinstance(decay, bool)
    if is_number and 0 <= decay < float("inf"):
        return float(decay)
    if isinstance(decay, str) and decay in ("learned", "gated"):
        return decay
    raise ArgumentError("decay", decay, "a non-negative number, 'learned' or 'gated'")


def check_combine(combine: Any) -> CombineOption:
    """Return how nodes join walks.

    Raises:
        ArgumentError: If it is no name.
    """
    if combine in ("multiply", "add"):
        return combine
    raise ArgumentError("combine", combine, "'multiply' or 'add'")


def sigma_of(nonlinear: Any) -> str:
    """Return the name of σ between the steps of a walk: of ``True``, tanh.

    Raises:
        ArgumentError: If there is none of that name.
    """
    if isinstance(nonlinear, bool):
        return "tanh" if nonlinear else "identity"
    return checked_name("nonlinear", nonlinear)


def checked_name(name: str, value: Any) -> str:
    """Return the name of a non-linearity; of None, that of the identity.

    Raises:
        ArgumentError: If there is none of that name.
    """
    if value is None:
        return "identity"
    if not isinstance(value, str):
        raise ArgumentError(name, value, "a name of functional.NONLINEARITIES")
    nonlinearity(value, name)
    return value
