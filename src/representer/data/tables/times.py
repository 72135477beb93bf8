"""Rows in the order of their times: numbers, dates, or times of a day."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from representer.checks import is_missing
from representer.data.tables.columns import Grid, number_of, text_of
from representer.errors import DataError

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_SLASHES = re.compile(r"(\d{4})/(\d\d?)/(\d\d?)")


def sorted_by_time(rows: Sequence[int], grid: Grid, column: int, source: str) -> list[int]:
    """Return the numbers of rows by the times in a column, those without one last.

    Times are numbers, dates in ISO 8601 (those without a time zone are in UTC), or times of a day.

    Raises:
        DataError: A time is neither, and the order of these texts is not that of the rows.
    """
    moments = {k: _moment(text_of(grid.rows[k][column]).strip()) for k in rows}
    unknown = [k for k, moment in moments.items() if moment is None]
    if not unknown:
        return sorted(rows, key=lambda k: moments[k] or 0.0)
    by_text = sorted(rows, key=lambda k: text_of(grid.rows[k][column]))
    if by_text == list(rows):
        return by_text
    name, text = grid.columns[column], text_of(grid.rows[unknown[0]][column])
    problem = f"{text!r:.60} is neither a number nor a date such as 2024-03-31T10:00"
    fix = f"Write such times, or sort the rows and leave out the column {name!r}."
    raise DataError(problem, file=source, line=grid.lines[unknown[0]], column=name, fix=fix)


def _moment(text: str) -> float | None:
    """Return a time as a number, infinity for a missing one, None for another text."""
    if is_missing(text):
        return math.inf
    if (number := number_of(text)) is not None:
        return number
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = match.groups()
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0)
    try:
        when = datetime.fromisoformat(_SLASHES.sub(_with_zeros, text))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _with_zeros(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    return f"{year}-{month:0>2}-{day:0>2}"
