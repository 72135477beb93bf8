"""Reading of CSV and TSV files, whose rows must have equal width."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from representer.data.tables.blocks import SMALL, BlockSize
from representer.data.tables.columns import count_names
from representer.data.tables.grid import BLANK, Grid
from representer.data.tables.header import ABOVE, grids
from representer.data.tables.source import physical_lines
from representer.errors import ArgumentError, DataError

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
    is_tsv: bool = False,
) -> Iterator[Grid]:
    """Return the blocks of a CSV or TSV file.

    Args:
        path: The file.
        wanted: Names or positions of the columns that will be used; they help to detect a header.
        header: True if the first row names the columns; None to decide from the first rows.
        delimiter: The cell separator. None means a tab for ``.tsv`` and a comma otherwise, or a
            semicolon or tab if the first line has those and no comma, or separates names of columns
            with it on one of the first lines. Excel's ``sep=;`` as first
            line is obeyed and is no row.
        quotes: True if a cell in double quotes may contain delimiters and line ends. None means
            True, except that a quoted cell of a TSV file may not contain a line end: in TSV files
            quotes are often ordinary characters, and rows would be merged.
        encoding: Name of the encoding.
        size: Limits of a block.
        is_tsv: Separate cells by a tab, as in a file whose suffix is ``.tsv``.

    Raises:
        DataError: If the file is not a valid table.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ArgumentError("delimiter", delimiter, "one character other than a quote or line end")
    lines = physical_lines(path, encoding)
    head = list(islice(lines, ABOVE))
    is_tsv = is_tsv or ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:])
    mark = MARK.fullmatch(head[0])
    separator = delimiter or (mark and mark[1])
    separator = separator or separator_of(head, "\t" if is_tsv else ",", wanted)
    notes = []
    if delimiter is None and separator != ("\t" if is_tsv else ","):
        notes.append(f"The first line shows that {_shown(separator)} separates the cells.")
    rows = _rows(
        path, chain(head, lines), separator, quotes, is_tsv, wanted, is_marked=mark is not None
    )
    return grids(path, rows, wanted, header, size, notes)


def _rows(
    path: Path,
    lines: Iterator[str],
    separator: str,
    quotes: bool | None,
    is_tsv: bool,
    wanted: list[str],
    *,
    is_marked: bool,
) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the line of each row and its cells, or the reason for which it is dropped."""
    quoting = csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=separator, strict=True, quoting=quoting)
    if is_marked:
        next(reader)
    width = start = names = 0
    blank: list[int] = []  # since the last row; those at the end of the file are not reported
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _syntax(path, line, reader.line_num, str(error), separator) from None
        is_blank = len(row) != width and not any(map(str.strip, row))
        if not row or (width > 1 and is_blank):
            blank.append(line)
            continue
        above, names = names, max(names, count_names(row, wanted)) if line <= ABOVE else 0
        if len(row) > width and names > max(1, above):
            width = 0  # what came before is a title
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


def separator_of(lines: list[str], usual: str, wanted: list[str]) -> str:
    """Return the usual separator, unless the first lines of a CSV file clearly have another."""
    if usual == "\t":
        return usual
    try:
        rows = [(mark, next(csv.reader([line], delimiter=mark), []))
                for line in lines for mark in ",;\t"]  # fmt: skip
    except csv.Error:
        return usual
    best, row = max(rows, key=lambda one: count_names(one[1], wanted))
    if count_names(row, wanted) > 1:
        return best
    cells = {mark: len(row) for mark, row in rows[:3]}
    return usual if cells[usual] > 1 else max(cells, key=lambda mark: cells[mark])


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
