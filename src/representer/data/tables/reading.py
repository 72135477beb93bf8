"""The cells of a CSV, TSV, JSON Lines or Parquet file, or of a workbook."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

from representer.data.tables.columns import (
    ABOVE,
    BLANK,
    MISSING,
    Dropped,
    Grid,
    blocks,
    count_names,
    grids,
    is_known_name,
    require_filled,
)
from representer.data.tables.files import (
    AGAIN,
    COMPRESSIONS,
    MAX_EXPANSION,
    OPENERS,
    ROW,
    SMALL,
    TABLES,
    WHOLE,
    BlockSize,
    format_of,
    open_regular,
    refusals,
    regular_file,
    uncompressed,
)
from representer.data.tables.workbook import read_parquet, read_workbook
from representer.errors import ArgumentError, DataError
from representer.storage.atomic import parse_json

# Reading of CSV and TSV files, whose rows must have equal width.

SEPARATORS = ",;\t|"
MARK = re.compile(r'"?sep=([^"\r\n])"?\s*', re.IGNORECASE)  # a first line for Excel


def read_delimited(
    path: Path, *, wanted: list[str], header: bool | None = None, delimiter: str | None = None,
    quotes: bool | None = None, encoding: str = "utf-8", size: BlockSize = SMALL,
    is_tsv: bool = False,
) -> Iterator[Grid]:  # fmt: skip
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
    titles = 0 if header is False else _titles(head, separator)
    rows = _delimited_rows(
        path, chain(head, lines), separator, quotes, is_tsv, wanted, titles,
        is_marked=mark is not None,
    )  # fmt: skip
    return grids(path, rows, wanted, header, size, notes)


def _delimited_rows(
    path: Path, lines: Iterator[str], separator: str, quotes: bool | None, is_tsv: bool,
    wanted: list[str], titles: int, *, is_marked: bool,
) -> Iterator[tuple[int, list[str] | str]]:  # fmt: skip
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
        if len(row) > width and (names > max(1, above) or line == titles + 1):
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
    """Return the usual separator, unless the first lines of a file clearly have another."""
    try:
        rows = [(mark, next(csv.reader([line], delimiter=mark), []))
                for line in lines for mark in SEPARATORS]  # fmt: skip
    except csv.Error:
        return usual
    best, row = max(rows, key=lambda pair: count_names(pair[1], wanted))
    if count_names(row, wanted) > 1:
        return best
    if usual == "\t":  # of a single column, perhaps
        return usual
    cells = {mark: len(row) for mark, row in rows[: len(SEPARATORS)]}
    below = [mark for mark in cells if _titles(lines, mark)]
    if max(cells.values()) == 1 and below:
        return below[0]
    return usual if cells[usual] > 1 else max(cells, key=lambda mark: cells[mark])


def _titles(lines: list[str], mark: str) -> int:
    """Return the number of the first lines that have one cell each, above a clear table.

    Below them are at least three rows, all of the same width.
    """
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=mark)]
    except csv.Error:  # a quoted cell that goes on
        return 0
    count = next((k for k, width in enumerate(widths) if width > 1), len(widths))
    below = [width for width in widths[count:] if width]
    is_name = any(map(is_known_name, lines[:count]))
    return count if len(below) > 2 and len(set(below)) == 1 and not is_name else 0


def _width(path: Path, line: int, got: int, expected: int, first: int, mark: str) -> DataError:
    few = "too few" if got < expected else "too many"
    return DataError(
        f"{few} cells: {got} instead of {expected} as on line {first}", file=path, line=line,
        fix=f"Put a cell that contains {_shown(mark)} or a line end in double quotes.",
    )  # fmt: skip


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


# Text files by their content: lines of fastText, one text a line, or a table.

_LABEL = re.compile(r"(?:^|(?<=\s))__label__(\S+)\s*")
_BINARY = {"PAR1": "parquet", "PK\x03\x04": "workbook"}


def content_of(path: Path, encoding: str, wanted: list[str]) -> str:
    """Return the format that the first lines of a file show; ``"lines"`` if it is no table."""
    head = [line for line in first_lines(path, encoding, ABOVE) if line.strip()] or [""]
    if fmt := _BINARY.get(head[0][:4]):
        return fmt
    if _LABEL.match(head[0]):
        return "labeled"
    if re.match(r"\s*(\{|\[\s*(\{|$))", head[0]):
        return "jsonl"
    if all("\t" in line for line in head):
        return "tsv"
    for mark in SEPARATORS.replace("\t", ""):
        first, *rest = csv.reader(head, delimiter=mark)
        is_table = len(first) > 1 and rest and all(len(row) == len(first) for row in rest)
        if is_table and count_names(first, wanted):
            return "csv"
    return "lines"


def read_lines(
    path: Path, *, wanted: list[str], encoding: str, size: BlockSize = SMALL, is_labeled: bool
) -> Iterator[Grid]:
    """Return the lines of a text in blocks, each without its end, in the first wanted column.

    Lines of fastText (``is_labeled``), such as ``__label__good a fine film``, are the columns
    ``label`` and ``text``; several labels are joined by ``|``.
    """
    columns = ["label", "text"] if is_labeled else [*wanted[:1]] or ["text"]

    def rows() -> Iterator[tuple[int, list[str] | str]]:
        yield 0, columns
        for number, line in enumerate(physical_lines(path, encoding), 1):
            if not (text := line.rstrip("\r\n")).strip():
                yield number, BLANK
            elif is_labeled:
                yield number, ["|".join(_LABEL.findall(text)), _LABEL.sub("", text).strip()]
            else:
                yield number, [text]

    what = "label and text" if is_labeled else "a text"
    return grids(path, rows(), wanted, True, size, [f"Each line is read as {what}."])


# JSON files: one object on each line, or one document with an array of objects.

_FIX = 'Every line is an object, such as {"text": "...", "label": "..."}.'


def read_jsonl(path: Path, *, encoding: str = "utf-8", size: BlockSize = SMALL) -> Iterator[Grid]:
    """Yield the blocks of a JSON file. The keys of the first object are the columns.

    A document instead of lines is an array of objects, an object with one such array, an object
    with an array for each column, or one of pandas' other forms; its rows are numbered from 1.
    """
    columns: list[str] = []

    def rows() -> Iterator[tuple[int, list[object] | str]]:
        cells, content = 0, 0
        blank: list[int] = []  # since the last row; those at the end of the file are not reported
        for number, record in _records(path, encoding):
            if record is MISSING:
                blank.append(number)
                continue
            if not isinstance(record, dict):
                problem = f"a JSON {_KINDS.get(type(record), 'value')}, not an object"
                raise DataError(problem, file=path, line=number, fix=_FIX)
            yield from ((each, BLANK) for each in blank)
            blank = []
            columns[:] = columns or record
            cells, content = cells + len(columns), content + 8 * len(record)  # at least
            require_filled(cells, content, path)
            yield number, [record.get(column, MISSING) for column in columns]

    for block in blocks(rows(), size, path):
        if not columns:
            continue
        kept = [(line, row) for line, row in block if not isinstance(row, str)]
        dropped = [Dropped(line, row) for line, row in block if isinstance(row, str)]
        cells, lines = [row for _, row in kept], [line for line, _ in kept]
        yield Grid(columns, cells, lines, dropped, header=True, numbered=False, notes=[])
    if not columns:
        raise DataError("contains no objects with keys", file=path, fix=_FIX)


def _records(path: Path, encoding: str) -> Iterable[tuple[int, Any]]:
    """Return the value of each line, MISSING for a blank one, or the rows of one document."""
    head = next(filter(str.strip, first_lines(path, encoding, 1000)), "").strip()
    is_whole = len(head) < 1 << 14  # a longer line may be cut
    if head[:1] == "[" or (is_whole and head[-1:] in ("{", "[", ",", ":")):
        text = "".join(physical_lines(path, encoding, longest=1 << 62))
        return enumerate(_unfolded(_parsed(path, 1, text)), 1)
    records = (
        (number, _parsed(path, number, line) if line.strip() else MISSING)
        for number, line in enumerate(physical_lines(path, encoding), 1)
    )
    first = list(islice(records, 2))
    if len(first) == 1 and (rows := _unfolded(first[0][1])) != [first[0][1]]:
        return enumerate(rows, 1)
    return chain(first, records)


def _unfolded(value: Any) -> list[Any]:
    """Return the rows of a document."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    arrays = [x for x in value.values() if isinstance(x, list)]
    if len(arrays) == 1 and all(isinstance(x, dict) for x in arrays[0]):
        return arrays[0] or [value]
    names, data = value.get("columns"), value.get("data")  # orient="split" of pandas
    if isinstance(names, list) and isinstance(data, list) and all(
        isinstance(row, list) and len(row) == len(names) for row in data
    ):  # fmt: skip
        return [dict(zip(map(str, names), row, strict=True)) for row in data] or [value]
    inner = [x for x in value.values() if isinstance(x, dict)]  # orient="index", with its numbers
    if len(inner) == len(value) and all(map(str.isdecimal, value)):
        return inner or [value]
    columns = [[*x.values()] if isinstance(x, dict) else x for x in value.values()]
    sizes = {len(x) if isinstance(x, list) else 0 for x in columns}
    if len(sizes) != 1 or 0 in sizes:
        return [value]
    if any(isinstance(cell, list | dict) for x in columns for cell in x):
        return [value]
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return parse_json(line.rstrip("\n"), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at character {error.colno}"
        line_number = number + error.lineno - 1
        raise DataError(problem, file=path, line=line_number, fix=_FIX) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=path, line=number, fix=_FIX) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        ((duplicate, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {duplicate!r} occurs twice")
    return record


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "truth value"}


def read_grid(path: str | PathLike[str], wanted: list[str], **layout: Any) -> Grid:
    """Return all cells of a file, see `read_blocks`."""
    (grid,) = read_blocks(path, wanted, **layout, size=WHOLE)
    return grid


def read_blocks(
    path: str | PathLike[str], wanted: list[str], *, header: bool | None = None,
    delimiter: str | None = None, quotes: bool | None = None, encoding: str = "utf-8",
    size: BlockSize = SMALL,
) -> Iterator[Grid]:  # fmt: skip
    """Yield all cells of a file in blocks of rows; no row is ever shifted or lost silently.

    The suffix determines the format: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.ndjson``, ``.json``),
    each optionally followed by ``.gz``, ``.bz2`` or ``.xz``, ``.parquet``, and the workbooks
    ``.xlsx``, ``.xls`` and ``.ods``. Of ``.txt`` and without a suffix, the content does; it may be
    one text a line, or lines of fastText, as in ``.csv`` and ``.tsv``.

    Args:
        path: The file.
        wanted: The columns that will be used, which help to detect a header.
        header: True if the first row of a CSV or TSV file names the columns; None decides by the
            rows of the first block; so it is for workbooks.
        delimiter: The cell separator of a CSV or TSV file; None decides by the suffix and the first
            line.
        quotes: True if double quotes enclose cells of a CSV or TSV file. None means True, except
            that a quoted cell of a TSV file may not span lines.
        encoding: Encoding of the file.
        size: Limits of a block.

    Raises:
        ArgumentError: If an option is invalid.
        DataError: If the file cannot be used. The message names the file, the line, the column and
            the fix.
        MissingExtraError: If the file is Parquet and pyarrow is not installed, or a workbook and
            python-calamine is not.
    """
    path = Path(path)
    fmt = table_format(path, wanted, encoding)
    if fmt in ("lines", "labeled"):
        is_labeled = fmt == "labeled"
        return read_lines(path, wanted=wanted, encoding=encoding, size=size, is_labeled=is_labeled)
    if fmt == "parquet":
        return read_parquet(path, size=size)
    if fmt == "workbook":
        return read_workbook(path, wanted=wanted, header=header, size=size)
    if fmt == "jsonl":
        return read_jsonl(path, encoding=encoding, size=size)
    return read_delimited(
        path, wanted=wanted, header=header, delimiter=delimiter, quotes=quotes, encoding=encoding,
        size=size, is_tsv=fmt == "tsv",
    )  # fmt: skip


def table_files(path: str | PathLike[str]) -> list[Path]:
    """Return the files of a table: a file, the tables of a folder, or those that match a pattern.

    Of a folder, all files with the suffix of a table are taken, without those of its subfolders and
    hidden ones; a pattern is such as ``"data/part-*.csv"``. Files are sorted by name.
    """
    path = Path(path)
    if path.is_dir():
        files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")]
        files = [p for p in files if kind_of(p) is not None]
        if not files:
            fix = f"The suffix of a table is one of {', '.join(TABLES)}."
            raise DataError("the folder holds no tables", file=path, fix=fix)
        if len(kinds := {str(kind_of(p)) for p in files}) > 1:
            fix = 'Pass a pattern, such as "FOLDER/*.csv".'
            problem = f"the folder holds tables of several formats: {', '.join(sorted(kinds))}"
            raise DataError(problem, file=path, fix=fix)
        return sorted(files)
    if any(mark in str(path) for mark in "*?[") and not path.exists():
        pattern = str(path.relative_to(path.anchor))
        matching = sorted(Path(path.anchor).glob(pattern))
        files = [p for p in matching if path.name[0] == "." or p.name[0] != "."]
        if not files:
            raise DataError("no file matches the pattern", file=path)
        return files
    return [path]


def named_table(folder: Path, name: str) -> Path | None:
    """Return the table of a name in a folder, such as ``name.csv``; None if there is none."""
    files = sorted(p for p in folder.glob(f"{name}.*") if kind_of(p) is not None)
    if len(files) > 1:
        listed = ", ".join(p.name for p in files)
        raise DataError(f"holds several: {listed}", file=folder, fix="Remove all but one.")
    return files[0] if files else None


def kind_of(path: Path) -> str | None:
    """Return the format of a table by its suffix; None if it is none."""
    return format_of(path) if uncompressed(path).suffix.lower() in TABLES else None


def table_format(path: Path, wanted: Sequence[str] = (), encoding: str = "utf-8") -> str:
    """Return the format of a table by its suffix or, of a text, by its first lines."""
    fmt = format_of(path) if format_of(path) == "lines" else kind_of(path)
    if fmt in ("csv", "tsv", "lines"):
        shown = content_of(path, encoding, list(wanted))
        return shown if fmt == "lines" or shown == "labeled" else fmt
    if fmt in ("parquet", "workbook") and path.suffix.lower() in COMPRESSIONS:
        what = "Parquet file" if fmt == "parquet" else fmt
        fix = f"Decompress the file first; a {what} is compressed inside."
        raise DataError(f"a compressed {what}", file=path, fix=fix)
    if fmt is None:
        regular_file(path)  # the message for a missing file or a folder is more useful
        listed = f"{', '.join(TABLES)}; text formats also with {', '.join(COMPRESSIONS)}"
        fix = f"Rename the file to the suffix of its format: {listed}."
        raise DataError("the suffix is not that of a supported format", file=path, fix=fix)
    return fmt


# Text files as lines: their encoding, their compression, and what is no text.

MAX_LINE = 1 << 24
"""Maximum number of characters in a physical line; a longer line is an error."""


_ALWAYS_READ, _HEAD = 1 << 20, 1 << 16


_CONTAINERS = {
    b"\x1f\x8b": ("gzip-compressed", ".gz"),
    **{b"BZh%d1AY&SY" % level: ("bzip2-compressed", ".bz2") for level in range(1, 10)},
    b"\xfd7zXZ\x00": ("xz-compressed", ".xz"),
    b"PK\x03\x04": ("a zip archive", ".zip"),
}


_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def physical_lines(
    path: Path, encoding: str = "utf-8", *, longest: int | None = None
) -> Iterator[str]:
    r"""Yield the lines of a text file with their ends, which may be ``\n``, ``\r\n`` or ``\r``.

    A UTF-8 byte order mark is removed. ``.gz``, ``.bz2`` and ``.xz`` are decompressed, to at most
    ``MAX_EXPANSION`` times their size.

    Raises:
        ArgumentError: If Python has no such encoding.
    """
    codec, longest = _codec(encoding), longest or MAX_LINE
    with refusals(path), _open(path) as binary:
        _refuse_binary(path, binary, codec)
        text = io.TextIOWrapper(
            binary, encoding="utf-8-sig" if codec == "utf-8" else codec, newline=""
        )
        number = 0
        try:
            while line := text.readline(longest):
                number += 1
                _check_line(path, number, line, longest)
                yield line
        except UnicodeError:
            raise _undecodable(path, codec) from None
        if not number:  # a byte order mark, or the first bytes of one
            raise DataError("holds no text", file=path, fix=AGAIN)


def first_lines(path: Path, encoding: str, count: int) -> list[str]:
    """Return the first lines of a file, without their ends; one alone may be cut, all damaged."""
    with refusals(path), _open(path) as binary:
        start = binary.read(_HEAD)
    text = start.decode(_codec(encoding), "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
    return (lines[:-1] if len(start) == _HEAD and len(lines) > 1 else lines)[:count]


def _codec(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # raises an error for codecs that are not for text, such as hex
    except (LookupError, ValueError):
        expected = "the name of a text encoding, such as 'utf-8' or 'latin-1'"
        raise ArgumentError("encoding", encoding, expected) from None
    return "utf-8" if codec == "utf-8-sig" else codec


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise DataError("is empty (0 bytes)", file=path, fix=AGAIN)
        opener = OPENERS.get(path.suffix.lower())
        if opener is None:
            yield file
            return
        with opener(file) as stream:
            limit = max(_ALWAYS_READ, MAX_EXPANSION * size)
            yield io.BufferedReader(Limited(stream, limit, path), 1 << 16)


class Limited(io.RawIOBase):
    """A decompressed stream that raises an error after more than ``limit`` bytes."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int, path: Path) -> None:
        self._stream, self._left, self._path = stream, limit, path

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and count the bytes."""
        data = self._stream.read(len(buffer))
        self._left -= len(data) + ROW * data.count(b"\n")  # of equal lines, most memory is rows
        if self._left < 0:
            raise DataError(
                f"expands to more than {MAX_EXPANSION} times its size, with {ROW} bytes more for "
                "each line",
                file=self._path,
                fix="Decompress it first if this is intended.",
            )
        buffer[: len(data)] = data
        return len(data)


def _refuse_binary(path: Path, binary: io.BufferedReader, codec: str) -> None:
    head = binary.peek(16)[:16]
    if not head:
        raise DataError("holds no data once decompressed", file=path, fix=AGAIN)
    for magic, (what, suffix) in _CONTAINERS.items():
        if head.startswith(magic):
            fix = f"Decompress it, or rename it to {path.name}{suffix}."
            if suffix not in COMPRESSIONS:
                fix = "Unpack it and pass the file inside."
            raise DataError(f"is {what}, not plain text", file=path, fix=fix)
    if codec == "utf-8" and head.startswith(_WIDE):
        is_32 = head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
        fix = f'Save it as UTF-8, or pass encoding="utf-{32 if is_32 else 16}".'
        raise DataError("is in UTF-16 or UTF-32, not UTF-8", file=path, fix=fix)


def _check_line(path: Path, number: int, line: str, longest: int) -> None:
    if "\0" in line:
        raise DataError(
            f"a NUL byte at character {line.index(chr(0)) + 1}", file=path, line=number,
            fix='This is not plain text; if it is UTF-16, pass encoding="utf-16".',
        )  # fmt: skip
    if len(line) == longest and line[-1] not in "\r\n":
        raise DataError(
            f"longer than {longest:,} characters", file=path, line=number,
            fix="Is this the right file? Each line is one document.",
        )  # fmt: skip


def _undecodable(path: Path, codec: str) -> DataError:
    """Read the file again to find the byte and line that cannot be decoded.

    The text wrapper decodes ahead, so its error has neither.
    """
    decoder = codecs.getincrementaldecoder(codec)()
    read, line, after_return = 0, 1, False
    with _open(path) as binary:
        while True:
            chunk = binary.read(1 << 16)
            first = read - len(decoder.getstate()[0])
            problem = ""
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                text = error.object[: error.start].decode(codec, errors="replace")
                byte = error.object[error.start]
                problem = f"byte 0x{byte:02x} at offset {first + error.start} is not {codec}"
            except UnicodeError as error:  # such as UTF-16 without its byte order mark
                text, problem = "", f"is not {codec} ({error})"
            # \r\n is one line end, also across two chunks
            line += text.count("\n") + text.count("\r") - text.count("\r\n")
            line -= after_return and text.startswith("\n")
            after_return = text.endswith("\r") if text else after_return
            if problem:
                fix = 'Save the file as UTF-8, or name its encoding: encoding="latin-1".'
                return DataError(problem, file=path, line=line, fix=fix)
            if not chunk:
                return DataError(f"is not {codec}", file=path)
            read += len(chunk)
