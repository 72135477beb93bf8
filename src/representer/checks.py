"""Checks of numbers and options, their upper limits, and the announcements of other packages.

Values above the limits would exhaust memory or time before anything is computed.
"""

from __future__ import annotations

import difflib
import inspect
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeGuard

from representer.errors import ArgumentError

LARGEST_INTEGER = 2**53  # every JSON parser represents it exactly

_SIZE, _LAYERS = 2**20, 256
_LISTED = 12  # arguments that a message lists
LIMITS: dict[str, int] = {
    "vocabulary_size": 2**27,
    "embedding_size": _SIZE,
    "hidden_size": _SIZE,
    "head_size": _SIZE,
    "input_size": _SIZE,
    "in_channels": _SIZE,
    "num_channels": _SIZE,
    "num_classes": _SIZE,
    "outputs": _SIZE,
    "edge_dim": 4096,
    "num_layers": _LAYERS,
    "depth": _LAYERS,
    "members": 100,
    "order": 64,
    "filter_length": 2**14,
    "dilation": 2**12,
    "stride": _SIZE,
    "samples": 2**26,
    "max_length": 10**9,
    "batch_size": 10**9,
    "epochs": 10**9,
    "length": 10**9,
    "repeats": 10**6,
    "tokens": 10**9,
    "limit": 10**9,
    "top": 10**6,
    "threads": max(64, 4 * (os.cpu_count() or 1)),  # many more can crash the process
    "workers": max(64, 4 * (os.cpu_count() or 1)),
}


# Numbers in plain notation, a subset of what ``float`` accepts, and integers.

_PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING = ("", "na", "n/a", "nan", "none", "null", "?")
_MEASURE = re.compile(
    r"[<>~≈≤≥=±]{0,2} ?(?:[$€£¥]|[A-Z]{3} )? ?([+-]?[0-9][0-9.,]{0,20}) ?"
    r"(?:[%°$€£¥\w][^\d\s-]{0,9})?"
)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)


def parse_number(text: str) -> float | None:
    """Parse a number in plain notation; return None for any other text.

    The notation is an optional sign, ASCII digits with an optional decimal point, and an optional
    exponent, or ``nan``, ``inf`` or ``infinity`` in any case. Unlike with ``float``, ``1_000`` and
    digits of other scripts are not numbers. Surrounding whitespace is allowed; a number too large
    for a double is infinite.

    Examples:
        >>> [parse_number(text) for text in ("-1.5e3", " 7 ", "1_000", "١٢", "0x10")]
        [-1500.0, 7.0, None, None, None]
    """
    text = text.strip(" \t\r\n")
    if _PLAIN.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return float(text)
    return None


def written_number(text: str) -> float | None:
    """Parse a number as `parse_number` does, or with a decimal comma, as in ``-1,5``."""
    return parse_number(text.replace(",", ".", 1))


def measured(text: str) -> str:
    """Return the number in a text that is one with a unit or sign, such as ``> 12 nM``, or ""."""
    match = _MEASURE.fullmatch(text)
    return match[1] if match else ""


def is_missing(cell: str | None) -> bool:
    """Return True for an empty cell or a word that tables have for a missing value."""
    return cell is not None and cell.strip().lower() in _MISSING


def is_number(value: Any) -> TypeGuard[float]:
    """Return True for a real number of Python or NumPy; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_integer(value: Any, least: int) -> bool:
    """Return True for an integer of Python or NumPy that is at least `least`.

    Examples:
        >>> [is_integer(value, 1) for value in (1, 0, True, 1.0)]
        [True, False, False, False]
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


# Requirements on the values of parameters and configurations, by name.


class SuggestsArguments:
    """Base of classes whose constructors suggest a name for an unknown keyword argument.

    Python's own message names the class that defines ``__init__``, which may be a private base.

    Attributes:
        instead: For arguments of similar classes elsewhere, what to do here.
    """

    instead: ClassVar[Mapping[str, str]] = {}

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Check the names of the keyword arguments.

        Raises:
            TypeError: If one is unknown, as for any function.
        """
        require_arguments(cls.__name__, cls.__init__, options, cls.instead)
        return super().__new__(cls)


def require_arguments(
    name: str, function: Callable[..., Any], options: Iterable[str],
    instead: Mapping[str, str] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Check the names of keyword arguments, and suggest one for an unknown name."""
    taken = inspect.signature(function).parameters if options else {}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
    for option in () if takes_any else options:
        if option not in taken:
            close = difflib.get_close_matches(option, [*taken], 1, 0.7)
            names = [each for each in taken if each not in ("self", "cls")]
            listed = f"; its arguments are {', '.join(names)}" if len(names) <= _LISTED else ""
            hint = f"; did you mean {close[0]!r}?" if close else listed
            hint = f"; {instead[option]}" if option in instead else hint
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}{hint}")


def check_integer(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return an integer of Python or NumPy from `least` to `most`."""
    if is_integer(value, least) and (most is None or value <= most):
        return int(value)
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    raise ArgumentError(
        name, value, expected if most is None else f"an integer from {least} to {most}"
    )


def check_integers(name: str, values: Any, least: int = 1, most: int | None = None) -> None:
    """Check a sequence of one or more integers from `least` to `most`."""
    is_several = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    are_integers = is_several and len(values) and all(is_integer(value, least) for value in values)
    if are_integers and (most is None or max(values) <= most):
        return
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"
    hint = f"For one of them, use ({values},)." if is_integer(values, least) else ""
    raise ArgumentError(name, values, f"integers {rule}", hint=hint)


def require(parameters: Any, name: str, is_fine: bool, expected: str) -> None:
    """Raise an error that states the value of a parameter and what was expected."""
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
    for name, allowed in choices.items():
        listed = ", ".join(map(str, allowed))
        require(parameters, name, getattr(parameters, name) in allowed, f"one of {listed}")


def require_fractions(parameters: Any, *names: str) -> None:
    """Require numbers in [0, 1)."""
    for name in names:
        require(parameters, name, 0 <= getattr(parameters, name) < 1, "a number in [0, 1)")


# Cells, kernels, estimators, tasks and recipes of installed packages, by entry points.

KINDS = ("cells", "kernels", "estimators", "tasks", "recipes")


def announced(kind: str) -> list[EntryPoint]:
    """Return the entry points of the group ``representer.KIND``, ordered by name."""
    return sorted(entry_points(group=f"representer.{kind}"), key=lambda entry: entry.name)


def installed(kind: str) -> dict[str, Any]:
    """Return the objects of one kind that installed packages announce, by name.

    An object that cannot be loaded is left out with a warning; ``representer doctor`` names it. The
    kind is one of `KINDS`.
    """
    objects = {}
    for entry in announced(kind):
        try:
            objects[entry.name] = entry.load()
        except Exception as error:  # a broken package must not break this one
            warnings.warn(f"{about(kind, entry)} cannot be loaded: {error!r}", stacklevel=2)
    return objects


def about(kind: str, entry: EntryPoint) -> str:
    """Return the kind and name of an entry point, with the package that it is from."""
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"{kind}: {entry.name}{package}"


def findings() -> Iterator[tuple[str, str, str]]:
    """Yield the kind and name, the package, and the error of each entry point; "" for none."""
    for group in KINDS:
        for entry in announced(group):
            package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown package"
            try:
                entry.load()
                error = ""
            except Exception as raised:
                error = repr(raised)
            yield f"{group}: {entry.name}", package, error
