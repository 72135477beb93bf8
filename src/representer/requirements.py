"""Requirements on the values of parameters and configurations, by name."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Sequence
from typing import Any, Self

from representer.errors import ArgumentError
from representer.numbers import is_integer


class SuggestsArguments:
    """Base of classes whose constructors suggest a name for an unknown keyword argument.

    Python's own message names the class that defines ``__init__``, which may be a private base.
    """

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Check the names of the keyword arguments.

        Raises:
            TypeError: If one is unknown, as for any function.
        """
        taken = inspect.signature(cls.__init__).parameters if options else {}
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
        for name in () if takes_any else options:
            if name not in taken:
                close = difflib.get_close_matches(name, [*taken], 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                problem = f"{cls.__name__}() got an unexpected keyword argument {name!r}"
                raise TypeError(problem + hint)
        return super().__new__(cls)


def check_integer(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return an integer of Python or NumPy from `least` to `most`.

    Raises:
        ArgumentError: If it is something else.
    """
    if is_integer(value, least) and (most is None or value <= most):
        return int(value)
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    raise ArgumentError(
        name, value, expected if most is None else f"an integer from {least} to {most}"
    )


def check_integers(name: str, values: Any, least: int = 1, most: int | None = None) -> None:
    """Check a sequence of one or more integers from `least` to `most`.

    Raises:
        ArgumentError: If it is something else, such as one number.
    """
    is_several = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    are_integers = is_several and len(values) and all(is_integer(one, least) for one in values)
    if are_integers and (most is None or max(values) <= most):
        return
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"
    hint = f"For one of them, use ({values},)." if is_integer(values, least) else ""
    raise ArgumentError(name, values, f"integers {rule}", hint=hint)


def require(parameters: Any, name: str, is_fine: bool, expected: str) -> None:
    """Raise an error that states the value of a parameter and what was expected.

    Raises:
        ArgumentError: If not `is_fine`.
    """
    if not is_fine:
        raise ArgumentError(name, getattr(parameters, name), expected)


def require_integers(
    parameters: Any, least: int, *names: str, is_none_allowed: bool = False
) -> None:
    """Require integers of at least `least`, or None where that is allowed."""
    rule = "0 or more" if least == 0 else "a positive integer"
    for name in names:
        value = getattr(parameters, name)
        is_fine = is_integer(value, least) or (is_none_allowed and value is None)
        require(parameters, name, is_fine, rule)


def require_numbers(parameters: Any, *names: str) -> None:
    """Require finite numbers that are not negative."""
    for name in names:
        require(parameters, name, 0 <= getattr(parameters, name) < math.inf, "0 or more")


def require_choices(parameters: Any, **choices: Sequence[Any]) -> None:
    """Require one of the known values of each parameter."""
    for name, known in choices.items():
        listed = ", ".join(map(str, known))
        require(parameters, name, getattr(parameters, name) in known, f"one of {listed}")


def require_fractions(parameters: Any, *names: str) -> None:
    """Require numbers in [0, 1)."""
    for name in names:
        require(parameters, name, 0 <= getattr(parameters, name) < 1, "a number in [0, 1)")
