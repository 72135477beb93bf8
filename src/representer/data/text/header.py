"""Whether the first row of a CSV file holds the names of the columns, or a document."""

from __future__ import annotations

from collections import Counter

from representer.data.text.columns import is_known_name

SAMPLE = 1000
LONGEST_NAME = 60


def has_header(rows: list[list[str]]) -> bool | None:
    """Say what the rows show by themselves.

    A first row that is also data gives itself away: a cell of it comes again and again in its
    column as a class does, or is a number in a column of numbers, or is too long for a name. A
    header gives itself away by a usual name, such as ``text`` or ``label``.

    Args:
        rows: The rows of the file, the first one included, all of one width.

    Returns:
        True or False where this is clear, and None where it could be either.
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
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_one_of_few(cell: str, column: list[str]) -> bool:
    counts = Counter(column)
    return cell in counts and len(counts) <= max(2, len(column) // 5)
