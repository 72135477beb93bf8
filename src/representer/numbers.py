"""Numbers in plain notation, a subset of what ``float`` accepts, and integers."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any, TypeGuard

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

    Args:
        text: A cell or field.

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
    found = _MEASURE.fullmatch(text)
    return found[1] if found else ""


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
