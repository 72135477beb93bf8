"""The rows of a file before it is known which columns hold the text and the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from representer.data.text.table import Dropped

MISSING = object()
"""Stands for a cell that a row does not have, in formats where that can be."""


@dataclass(frozen=True)
class Grid:
    """Cells by row and column.

    Args:
        columns: The names of the columns, all different.
        rows: The cells; strings, or for JSON and Parquet any value, or ``MISSING``.
        lines: The physical line on which each row starts, from 1.
        dropped: Lines that held no row.
        header: Whether the file named its columns.
        numbered: Whether a column may also be asked for by its position, from 1.
        notes: What was guessed.
    """

    columns: list[str]
    rows: Sequence[Sequence[object]]
    lines: list[int]
    dropped: list[Dropped]
    header: bool
    numbered: bool
    notes: list[str]
