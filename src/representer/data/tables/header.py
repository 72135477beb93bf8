"""Detection of a header in a CSV file."""

from __future__ import annotations

from collections import Counter

from representer.data.tables.columns import is_known_name
from representer.numbers import parse_number

SAMPLE = 1000
LONGEST_NAME = 60


def has_header(rows: list[list[str]]) -> bool | None:
    """Return True if the first row is a header, False if it is data, None if it could be either.

    The first row is data if one of its cells recurs in its column like a class, is a number in a
    column of numbers, or is too long for a name. It is a header if it contains a common name, such
    as ``text`` or ``label``.

    Args:
        rows: All rows of the file, including the first, of equal width.
    """
    first, rest = rows[0], rows[1 : SAMPLE + 1]
    if not rest:
        return None
    if any(len(cell) > LONGEST_NAME or "\n" in cell or "\r" in cell for cell in first):
        return False
    for cell, *column in zip(first, *(row for row in rest if row != first), strict=True):
        if _is_number(cell) and all(map(_is_number, column)):
            return False
        if cell and _is_one_of_few(cell, column):
            return False
    distinct = len({cell.strip() for cell in first}) == len(first)
    return True if distinct and any(map(is_known_name, first)) else None


def _is_number(cell: str) -> bool:
    return parse_number(cell) is not None


def _is_one_of_few(cell: str, column: list[str]) -> bool:
    counts = Counter(column)
    return cell in counts and len(counts) <= max(2, len(column) // 5)
