"""Reading of CSV and TSV files, whose rows must have equal width."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from representer.data.tables.blocks import SMALL, BlockSize, blocks
from representer.data.tables.columns import is_known_name
from representer.data.tables.grid import BLANK, Dropped, Grid
from representer.data.tables.source import physical_lines
from representer.data.tables.suggest import listing
from representer.errors import ArgumentError, DataError
from representer.numbers import parse_number

SAMPLE = 1000  # rows that a header is told from
LONGEST_NAME = 60
MARK = re.compile(r'"?sep=([^"\r\n])"?\s*', re.IGNORECASE)  # a first line for Excel


def read_delimited(
    path: Path,
    *,
    wanted: list[str],
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    size: BlockSize = SMALL,
) -> Iterator[Grid]:
    """Yield the blocks of a CSV or TSV file.

    Args:
        path: The file.
        wanted: Names or positions of the columns that will be used; they help to detect a header.
        header: True if the first row names the columns; None to decide from the first rows.
        delimiter: The cell separator. None means a tab for ``.tsv`` and a comma otherwise, or a
            semicolon or tab if the first line has those and no comma. Excel's ``sep=;`` as first
            line is obeyed and is no row.
        quotes: True if a cell in double quotes may contain delimiters and line ends. None means
            True, except that a quoted cell of a TSV file may not contain a line end: in TSV files
            quotes are often ordinary characters, and rows would be merged.
        encoding: Name of the encoding.
        size: Limits of a block.

    Raises:
        DataError: If the file is not a valid table.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ArgumentError("delimiter", delimiter, "one character other than a quote or line end")
    lines = physical_lines(path, encoding)
    head = next(lines, "")
    is_tsv = ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:])
    mark = MARK.fullmatch(head)
    separator = delimiter or (mark and mark[1]) or _separator(head, "\t" if is_tsv else ",")
    notes = []
    if delimiter is None and separator != ("\t" if is_tsv else ","):
        notes.append(f"The first line shows that {_shown(separator)} separates the cells.")
    first: list[str] | None = None
    columns: list[str] = []
    written: list[str] = []
    named, count = False, 0
    rows = _rows(path, chain([head], lines), separator, quotes, is_tsv, is_marked=mark is not None)
    for block in blocks(rows, size):
        kept = [(line, row) for line, row in block if isinstance(row, list)]
        dropped = [Dropped(line, row) for line, row in block if isinstance(row, str)]
        if first is None and kept:
            start, first = kept[0]
            named, note = _decide_header([row for _, row in kept], header, wanted)
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


def _rows(
    path: Path,
    lines: Iterator[str],
    separator: str,
    quotes: bool | None,
    is_tsv: bool,
    *,
    is_marked: bool,
) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the line of each row and its cells, or the reason for which it is dropped."""
    quoting = csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=separator, strict=True, quoting=quoting)
    if is_marked:
        next(reader)
    width = start = 0
    blank: list[int] = []  # since the last row; those at the end of the file are not reported
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _syntax(path, line, reader.line_num, str(error), separator) from None
        if not row or (len(row) == 1 and width > 1 and not row[0].strip()):
            blank.append(line)
            continue
        if width and len(row) != width:
            raise _width(path, line, len(row), width, start, separator)
        if is_tsv and quotes is None and reader.line_num > line:
            raise DataError(
                f"a quoted cell continues to line {reader.line_num}",
                file=path,
                line=line,
                fix="Pass quotes=False if quotes are ordinary characters here, "
                "or quotes=True if cells may span lines.",
            )
        yield from ((each, BLANK) for each in blank)
        blank = []
        width, start = width or len(row), start or line
        yield line, row


def _separator(line: str, usual: str) -> str:
    """Return the usual separator, unless the first line of a CSV file clearly has another."""
    if usual == "\t":
        return usual
    try:
        cells = {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in ",;\t"}
    except csv.Error:
        return usual
    return usual if cells[usual] > 1 else max(cells, key=lambda mark: cells[mark])


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
    by_name = [name for name in wanted if not name.isdecimal()]
    for name, count in Counter(names).items():
        if count > 1 and (name in by_name or not by_name):
            fix = "Rename one, or pass header=False if the first row is a document."
            problem = f"{count} columns have this name in the header"
            raise DataError(problem, file=path, line=line, column=name, fix=fix)
    return [str(i) if name in names[: i - 1] else name for i, name in enumerate(names, 1)]


def _width(path: Path, line: int, got: int, expected: int, first: int, mark: str) -> DataError:
    few = "too few" if got < expected else "too many"
    return DataError(
        f"{few} cells: {got} instead of {expected} as on line {first}",
        file=path,
        line=line,
        fix=f"Put a cell that contains {_shown(mark)} or a line end in double quotes.",
    )


def _syntax(path: Path, line: int, last: int, message: str, mark: str) -> DataError:
    if "unexpected end of data" in message:
        problem = f"a quote that opens in the row on this line is not closed before line {last}"
        fix = 'Close it, write a quote inside a cell as "", or pass quotes=False.'
    elif "field larger than field limit" in message:
        problem = f"a cell is longer than {csv.field_size_limit():,} characters"
        fix = "Look for an unclosed quote; for longer documents use JSON Lines."
    elif "expected after" in message:
        problem = f"something other than {_shown(mark)} follows a closing quote on line {last}"
        fix = 'Write a quote inside a cell as "", or pass quotes=False.'
    else:
        problem, fix = message, "Is this a CSV file?"
    return DataError(problem, file=path, line=line, fix=fix)


def _shown(mark: str) -> str:
    return {"\t": "a tab", " ": "a blank"}.get(mark, repr(mark))
