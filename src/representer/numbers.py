"""Numbers in the plain notation, which is narrower than that of Python's ``float``."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)


def parse_number(text: str) -> float | None:
    """Return the number that a text is in the plain notation, or None.

    The notation is an optional sign, ASCII digits with an optional decimal point, and an optional
    exponent; also ``nan``, ``inf`` and ``infinity`` in any case. ``float`` also reads ``1_000`` and
    the digits of other scripts, which in a data file are a typing error or no number at all. Blanks
    around the number are allowed; a number too large for a double is infinite.

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
