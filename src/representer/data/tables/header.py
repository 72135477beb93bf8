"""The header of a table of texts: whether there is one, and the names of the columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from representer.data.tables.blocks import BlockSize, blocks
from representer.data.tables.columns import count_names, is_known_name
from representer.data.tables.grid import Dropped, Grid
from representer.data.tables.suggest import listing
from representer.errors import DataError
from representer.numbers import parse_number

SAMPLE = 1000  # rows that a header is told from
LONGEST_NAME = 60
ABOVE = 20  # rows that may stand above a header


def grids(
    path: Path,
    rows: Iterable[tuple[int, list[str] | str]],
    wanted: list[str],
    header: bool | None,
    size: BlockSize,
    notes: list[str],
) -> Iterator[Grid]:
    """Yield the blocks of a table, whose first row may name the columns.

    Args:
        path: The file, for messages.
        rows: The line of each row and its cells, all of equal width but for a title above the
            header, or the reason for which it is dropped.
        wanted: Names or positions of the columns that will be used; they help to detect a header.
        header: True if the first row names the columns; None to decide from the first rows.
        size: Limits of a block.
        notes: What was found out about the file.

    Raises:
        DataError: If there are no rows below the header, or names that repeat.
    """
    first: list[str] | None = None
    columns: list[str] = []
    written: list[str] = []
    named, count = False, 0
    for block in blocks(rows, size):
        kept = [(line, row) for line, row in block if isinstance(row, list)]
        dropped = [Dropped(line, row) for line, row in block if isinstance(row, str)]
        if first is None and kept:
            above = 0 if header is False else rows_above([row for _, row in kept], wanted)
            dropped += [Dropped(line, "above the header") for line, _ in kept[:above]]
            kept = kept[above:]
            start, first = kept[0]
            named, note = _decide_header([row for _, row in kept], above > 0 or header, wanted)
            notes += [note] if note else []
            columns = [str(number + 1) for number in range(len(first))]
            if named:
                columns, written = _names(path, first, start, wanted), first
                kept = kept[1:]
        if named:
            again = [line for line, row in kept if row == first]
            dropped += [Dropped(line, "header repeated") for line in again]
            dropped.sort(key=lambda row: row.line)
            kept = [(line, row) for line, row in kept if row != first] if again else kept
        count += len(kept)
        places, cells = [line for line, _ in kept], [row for _, row in kept]
        yield Grid(
            columns, cells, places, dropped, named, numbered=True, notes=notes,
            written=written,
        )  # fmt: skip
        notes = []
    if first is None:
        raise DataError("contains only blank lines", file=path)
    if not count:
        fix = "If the first row is a document, pass header=False."
        raise DataError("has a header and no documents", file=path, fix=fix)


def rows_above(rows: list[list[str]], wanted: Iterable[str] = ()) -> int:
    """Return the number of rows above the header, such as a title; 0 if it is not clear.

    The header is the first row with cells in most columns, if it has more names of columns than
    each row above it. If none has any, it is one that may be a header.

    Args:
        rows: The first rows; those of a title may be shorter.
        wanted: Names of the columns that will be used.
    """
    width = max(len(row) for row in rows[: ABOVE + 1])
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[:ABOVE]]
    least = max(min(2, width), width / 2)
    at = next((k for k, n in enumerate(filled) if len(rows[k]) == width and n >= least), 0)
    most = max((count_names(above, wanted) for above in rows[:at]), default=0)
    if count_names(rows[at], wanted) > most:
        return at
    return 0 if most or has_header(rows[at:]) is not None else at


def _decide_header(
    rows: list[list[str]], header: bool | None, wanted: list[str]
) -> tuple[bool, str]:
    """Return True if the first row is a header, and a note if that is a guess."""
    if header is not None:
        return header, ""
    first = [cell.strip() for cell in rows[0]]
    numbers = [name for name in wanted if name.isascii() and name.isdecimal()]
    if len(numbers) < len(wanted):  # columns were given by name, so there is a header
        return True, ""
    shown = has_header(rows)
    if shown is True or (shown is None and numbers and set(numbers) <= set(first)):
        return True, ""
    if shown is False or numbers:
        numbered = f"the columns are numbered 1 to {len(first)}"
        return False, f"The first row is used as a document, not as a header: {numbered}."
    names = listing([cell[:40] for cell in first])
    return True, f"The first row is used as the header: {names} (otherwise pass header=False)."


def has_header(rows: list[list[str]]) -> bool | None:
    """Return True if the first row is a header, False if it is data, None if it could be either.

    The first row is data if one of its cells recurs in its column like a class, is a number in a
    column of numbers, or is too long for a name. It is a header if it contains a common name, such
    as ``text`` or ``label``.

    Args:
        rows: The first rows of the file, of equal width.
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


def _names(path: Path, first: list[str], line: int, wanted: list[str]) -> list[str]:
    """Return the names of the columns; one without a name of its own is named by its number.

    Raises:
        DataError: Several columns have one name, and it is wanted, or may be.
    """
    names = [cell.strip() or str(number) for number, cell in enumerate(first, 1)]
    by_name = {name for name in wanted if not name.isdecimal()}
    for name, count in Counter(names).items():
        if count > 1 and (name in by_name or not by_name):
            fix = "Rename one, or pass header=False if the first row is a document."
            problem = f"{count} columns have this name in the header"
            raise DataError(problem, file=path, line=line, column=name, fix=fix)
    first_of = {name: i for i, name in reversed([*enumerate(names, 1)])}
    return [name if first_of[name] == i else str(i) for i, name in enumerate(names, 1)]
