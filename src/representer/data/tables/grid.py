"""The cells of a file, before its columns are selected, and the dropped rows."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from representer.errors import DataError
from representer.numbers import written_number

MISSING = object()
"""A missing cell, in formats that allow it."""


def text_of(cell: object) -> str:
    """Return a cell as text, ``""`` for a missing value."""
    if cell is None or cell is MISSING:
        return ""
    return cell if isinstance(cell, str) else str(cell)


def name_of(cell: object) -> str:
    """Return a cell as a name: without whitespace around it, its accents composed.

    Names that look alike are equal then, however they were typed; Unicode writes an accented
    letter as one character or as two, and most systems show no difference.
    """
    return unicodedata.normalize("NFC", text_of(cell).strip())


def number_of(cell: object) -> float | None:
    """Return a cell as a number, None if it is none."""
    return float(cell) if isinstance(cell, float) else written_number(text_of(cell))


def require_filled(cells: int, content: int, path: Path) -> None:
    """Refuse a table that needs much more memory than its file, since most cells are empty.

    Args:
        cells: The number of cells.
        content: The number of characters of the rows, as written.
        path: The file.

    Raises:
        DataError: If there are over two million cells and more than one per character.
    """
    if cells > 2_000_000 + content:
        problem = f"has {cells:,} cells in {content:,} characters, so nearly all are empty"
        raise DataError(problem, file=path, fix="Remove columns and cells that are hardly used.")


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
    written: Sequence[str] = ()  # the names as in the file, where a column may have none

    @property
    def head(self) -> Sequence[str]:
        """The names of the columns as they are written back."""
        return self.written or self.columns


BLANK = "blank line"
MOST_REASONS, MOST_LINES = 20, 5  # shown; a reason may quote the row


class LeftOut:
    """Counts of dropped rows by reason, in bounded memory.

    As text, it is for example ``"3 rows left out: 2 empty text (lines 4, 9), 1 empty label (line
    12)"``; an empty string if nothing was left out.

    Attributes:
        total: Number of dropped rows.
        counts: Their number by reason, for the first `MOST_REASONS` reasons.
        lines: The first `MOST_LINES` lines of each of these reasons.
    """

    def __init__(self, dropped: Sequence[Dropped] = ()) -> None:
        self.total, self._hidden = 0, set[int]()
        self.counts, self.lines = Counter[str](), dict[str, list[int]]()
        self.add(dropped)

    def add(self, dropped: Sequence[Dropped]) -> None:
        """Count dropped rows."""
        self.total += len(dropped)
        for row in dropped:
            if row.reason not in self.lines and len(self.lines) >= MOST_REASONS:
                self._hidden.add(hash(row.reason))
                continue
            lines = self.lines.setdefault(row.reason, [])
            self.counts[row.reason] += 1
            if len(lines) < MOST_LINES:
                lines.append(row.line)

    def __str__(self) -> str:
        """Return a sentence for the user."""
        if not self.total:
            return ""
        parts = []
        for reason, count in self.counts.items():
            shown = ", ".join(map(str, self.lines[reason])) + ", ..." * (count > MOST_LINES)
            parts.append(f"{count} {reason} (line{'s' if count > 1 else ''} {shown})")
        if self._hidden:
            parts.append(f"and for {len(self._hidden)} other reasons")
        rows = f"{self.total} row{'s' if self.total > 1 else ''}"
        return f"{rows} left out: {', '.join(parts)}"


def left_out(dropped: Sequence[Dropped]) -> str:
    """Return the number of rows left out, with reasons and their first lines, see `LeftOut`."""
    return str(LeftOut(dropped))
