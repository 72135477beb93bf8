"""The cells of a file, before its columns are selected, and the dropped rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = object()
"""A missing cell, in formats that allow it."""


@dataclass(frozen=True)
class Dropped:
    """A dropped row.

    Args:
        line: The line of the file on which the row starts, counted from 1.
        reason: The reason, for example ``"empty text"``.
    """

    line: int
    reason: str


@dataclass(frozen=True)
class Grid:
    """Cells by row and column."""

    columns: list[str]  # distinct names
    rows: Sequence[Sequence[object]]  # strings, or for JSON and Parquet any value, or MISSING
    lines: list[int]  # the physical line on which each row starts, from 1
    dropped: list[Dropped]  # lines without a row
    header: bool  # the file names its columns
    numbered: bool  # columns may also be given by position, starting at 1
    notes: list[str]  # guesses made while reading


MOST_REASONS = 20  # which may quote the row


def left_out(dropped: Sequence[Dropped], most_lines: int = 5) -> str:
    """Return the number of rows left out, with reasons and at most ``most_lines`` lines for each.

    For example ``"3 rows left out: 2 empty text (lines 4, 9), 1 empty label (line 12)"``; an empty
    string if nothing was left out.
    """
    if not dropped:
        return ""
    parts = []
    for reason, count in Counter(row.reason for row in dropped).items():
        lines = [str(row.line) for row in dropped if row.reason == reason]
        shown = ", ".join(lines[:most_lines]) + (", ..." if count > most_lines else "")
        parts.append(f"{count} {reason} (line{'s' if count > 1 else ''} {shown})")
    total, hidden = len(dropped), len(parts) - MOST_REASONS
    if hidden > 0:
        parts[MOST_REASONS:] = [f"and for {hidden} other reasons"]
    return f"{total} row{'s' if total > 1 else ''} left out: {', '.join(parts)}"
