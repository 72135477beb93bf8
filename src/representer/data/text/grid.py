"""The cells of a file, before the columns of the text and the label are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from representer.data.text.table import Dropped

MISSING = object()
"""A cell that a row lacks, in formats that allow it."""


@dataclass(frozen=True)
class Grid:
    """Cells by row and column.

    Args:
        columns: The distinct names of the columns.
        rows: The cells; strings, or for JSON and Parquet any value, or ``MISSING``.
        lines: The physical line on which each row starts, from 1.
        dropped: Lines without a row.
        header: True if the file names its columns.
        numbered: True if a column may also be given by its position, starting at 1.
        notes: Guesses made while reading.
    """

    columns: list[str]
    rows: Sequence[Sequence[object]]
    lines: list[int]
    dropped: list[Dropped]
    header: bool
    numbered: bool
    notes: list[str]
