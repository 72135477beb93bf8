"""Reading of workbooks with calamine, as if they were saved as CSV, and of Parquet files."""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from representer.data.tables.columns import (
    ABOVE,
    BLANK,
    Grid,
    blocks,
    count_names,
    grids,
    rows_above,
    text_of,
)
from representer.data.tables.files import MAX_EXPANSION, SMALL, BlockSize, most_bytes, open_regular
from representer.errors import DataError, MissingExtraError, reason

# Checks of the size of the sheets of a workbook, before calamine allocates all cells.
#
# The reader allocates the rectangle from the first to the last cell, so a single cell far away may
# need gigabytes, which ends the process, and so may a long text that many cells share.

MOST_CELLS, BYTES_OF_CELL = 2_000_000, 8
_ALWAYS_READ = 16 << 20
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_CELLS = {2, 3, 4, 5, 6, 0xBD, 0xD6, 0xFD, 0x203, 0x204, 0x205, 0x27E}  # BIFF records with a value
_END, _SHEET, _MULTIPLE = 0x0A, 0x85, 0xBD


def check_workbook(content: IO[bytes]) -> None:
    """Check the sheets of an Excel or LibreOffice workbook.

    Raises:
        ValueError: If the rectangles of the sheets have far more cells than the file can hold, or
            it expands to far more than text does, itself or in its cells.
    """
    data = content.read()
    if data.startswith(_OLE):
        stream = _stream(data)
        _require(_cells_of_records(stream), len(stream))
    content.seek(0)
    if zipfile.is_zipfile(content):
        _check_archive(content, len(data))
    content.seek(0)


def _require(cells: int, size: int) -> None:
    if cells > MOST_CELLS + size // BYTES_OF_CELL:
        raise ValueError(
            f"a stray cell, which you can delete, makes its sheets {cells:,} cells large"
        )


def _check_archive(content: IO[bytes], packed: int) -> None:
    most = left = _ALWAYS_READ + MAX_EXPANSION * packed
    lengths, characters = list[int](), 0
    with zipfile.ZipFile(content) as archive:
        if "xl/workbook.bin" in {name.lower() for name in archive.namelist()}:
            raise ValueError("a binary workbook (.xlsb)")
        for entry in sorted(archive.infolist(), key=lambda entry: not _is_shared(entry.filename)):
            entry.file_size = left + 2  # read what it holds and not what it declares
            with archive.open(entry) as member:
                text = member.read(left + 1)
            if (left := left - len(text)) < 0:
                raise ValueError(f"it expands to more than {MAX_EXPANSION} times its size")
            if _is_shared(entry.filename):
                lengths = [len(item) for item in re.split(rb"<(?:\w+:)?si\b", text)[1:]]
            elif b"sheetData" in text or b"table:table" in text:
                sheets = _Sheets(text, lengths)
                _require(sheets.cells, len(text))
                if (characters := characters + sheets.characters) > most:
                    raise ValueError(f"its cells hold more than {MAX_EXPANSION} times its size")


def _is_shared(member: str) -> bool:
    return member.lower().endswith("sharedstrings.xml")


class _Sheets:
    """The size of the sheets of an XML file.

    Attributes:
        cells: Cells in the rectangles of the sheets, from A1 on.
        characters: Characters in all of them, each repetition counted.
    """

    def __init__(self, text: bytes, shared: Sequence[int] = ()) -> None:
        self.cells = self._row = self._column = self._rows = self._columns = 0
        self._row_count = self._column_count = 1
        self.characters, self._shared, self._is_shared = 0, shared, False
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.CharacterDataHandler = self._add
        parser.Parse(text, True)
        self._end_sheet()

    def _start(self, name: str, attributes: dict[str, Any]) -> None:
        local = name.rpartition(":")[2]
        if local in ("sheetData", "table"):
            self._end_sheet()
        elif local in ("row", "table-row"):
            self._row += self._row_count
            self._row_count = int(attributes.get("table:number-rows-repeated", 1))
            if local == "row" and "r" in attributes:
                self._row = int(attributes["r"])
            self._column, self._column_count = 0, 1
        elif local in ("c", "table-cell", "covered-table-cell"):
            self._column += self._column_count
            self._column_count = int(attributes.get("table:number-columns-repeated", 1))
            self._is_shared = attributes.get("t") == "s"
            if local == "c" and "r" in attributes:
                self._move(attributes["r"])
            if any(key.startswith("office:") for key in attributes):
                self._fill()
        elif local in ("v", "is", "p"):
            self._fill()
        elif name == "text:s":  # blanks
            self._count(int(attributes.get("text:c", 1)))

    def _add(self, text: str) -> None:
        """Count the characters of a cell: those of its text, or of the shared one it names."""
        length = len(text)
        if self._is_shared:
            with suppress(ValueError, IndexError):
                length = self._shared[int(text)]
        self._count(length)

    def _count(self, length: int) -> None:
        self.characters += length * self._row_count * self._column_count

    def _move(self, name: str) -> None:
        if not (parsed := re.fullmatch(r"([A-Za-z]{1,4})([0-9]{1,9})", name)):
            raise ValueError(f"a cell is at {name!r:.20}")
        self._column = 0
        for letter in parsed[1].upper():
            self._column = 26 * self._column + ord(letter) - 64
        self._row = int(parsed[2])

    def _fill(self) -> None:
        """Extend the rectangle to the current cell, which has a value, and its repetitions."""
        self._rows = max(self._rows, self._row + self._row_count - 1)
        self._columns = max(self._columns, self._column + self._column_count - 1)

    def _end_sheet(self) -> None:
        self.cells += self._rows * self._columns
        self._row = self._column = self._rows = self._columns = 0


def _stream(data: bytes) -> bytes:
    """Return the workbook in an OLE file, empty if it has none that is as long as Excel writes."""
    size = 1 << min(struct.unpack_from("<H", data, 30)[0], 12)
    directory, table = struct.unpack_from("<I", data, 48)[0], struct.unpack_from("<I", data, 68)[0]

    def numbers(content: bytes) -> array[int]:
        return array("I", content[: len(content) & -4])

    def sector(number: int) -> bytes:
        return data[(number + 1) * size : (number + 2) * size]

    sectors, links = numbers(data[76:512]), array("I")
    while (more := numbers(sector(table))) and len(sectors) < len(data):
        table = more.pop()
        sectors += more
    for number in sectors:
        links += numbers(sector(number))

    def chain(number: int) -> bytes:
        parts = list[bytes]()
        while number < len(links) and len(parts) < len(links):
            parts.append(sector(number))
            number = links[number]
        return b"".join(parts)

    entries = chain(directory)
    for offset in range(0, len(entries) - 127, 128):
        if entries[offset : offset + 64].decode("utf-16-le", "replace").rstrip("\0") in (
            "Workbook",
            "Book",
        ):
            start, held = struct.unpack_from("<II", entries, offset + 116)
            if held < 4096:
                raise ValueError("its stream is shorter than Excel writes it")
            return chain(start)
    return b""


def _cells_of_records(stream: bytes) -> int:
    """Return the number of cells in the rectangles of the sheets of a BIFF stream."""
    starts = [struct.unpack_from("<I", body)[0] for code, body in _records(stream, 0)
              if code == _SHEET and len(body) >= 4]  # fmt: skip
    sizes: dict[int, int] = {}
    for start in set(starts):
        rows = columns = 0
        for code, body in _records(stream, start):
            if code in _CELLS and len(body) >= 6:
                row, column = struct.unpack_from("<HH", body)
                last = struct.unpack("<H", body[-2:])[0] if code == _MULTIPLE else column
                rows, columns = max(rows, row + 1), max(columns, column + 1, last + 1)
        sizes[start] = rows * columns
    return sum(sizes[start] for start in starts)


def _records(stream: bytes, offset: int) -> Any:
    """Yield type and content of each record up to the end of a part of the stream."""
    while offset + 4 <= len(stream):
        code, length = struct.unpack_from("<HH", stream, offset)
        if code == _END:
            return
        yield code, stream[offset + 4 : offset + 4 + length]
        offset += 4 + length


_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, expat.ExpatError, NotImplementedError)


def read_workbook(
    path: Path, *, wanted: list[str], header: bool | None = None, size: BlockSize = SMALL
) -> Iterator[Grid]:
    """Return a sheet in blocks: the first whose header has the usual names, or the largest.

    All cells are texts as in a CSV file: 3 rather than 3.0, dates in ISO 8601, formulas as their
    values, and errors such as ``#N/A`` empty. The lines are the numbers of the rows.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise MissingExtraError("reading workbooks", "python-calamine", "train") from None
    expected = CalamineError, ValueError, OSError, *_DAMAGED
    with open_regular(path) as content:
        try:
            check_workbook(content)
            with CalamineWorkbook.from_filelike(content) as book:
                count, best, name, rows = len(book.sheet_names), (False, 0), "", []
                for other in book.sheet_names:
                    cells = book.get_sheet_by_name(other).to_python(skip_empty_area=False)
                    if not cells:
                        continue
                    first = [[_text(cell) for cell in row] for row in cells[: ABOVE + 1]]
                    names = count_names(first[rows_above(first, wanted)], wanted)
                    rank = names > 0 and len(cells) > 1, len(cells) * len(cells[0])
                    if not rows or rank > best:
                        best, name, rows = rank, other, cells
                    if names > 1 and len(cells) > 1:
                        break
                if not rows:
                    raise DataError("has no cells", file=path)
        except DataError:
            raise
        except BaseException as error:
            panicked = type(error).__name__ == "PanicException"  # for a date after 10^300 days
            if not panicked and not isinstance(error, expected):
                raise
            fix = "Save it again, without a password, or as CSV."
            problem = f"cannot be read as a workbook: {reason(error)}"
            raise DataError(problem, file=path, fix=fix) from None
    notes = [f"The sheet {name!r} is read, of {count}."] if count > 1 else []
    return grids(path, _workbook_rows(rows), wanted, header, size, notes)


def _workbook_rows(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, list[str] | str]]:
    for line, row in enumerate(rows, 1):
        cells = [_text(cell) for cell in row]
        yield line, cells if any(map(str.strip, cells)) else BLANK


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return text_of(cell)


# Reading of Parquet files with pyarrow.

BATCH = 1024  # rows that are decoded together
_WIDEST = 1024  # bytes of a cell of fixed width, which is never shared


def read_parquet(path: Path, *, size: BlockSize = SMALL) -> Iterator[Grid]:
    """Yield the columns of plain values of a Parquet file in blocks, with row numbers as lines."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading Parquet", "pyarrow", "train") from None

    with open_regular(path) as content, _as_data_errors(path):
        held = os.fstat(content.fileno()).st_size
        schema, metadata = (
            read(content) for read in (pyarrow.parquet.read_schema, pyarrow.parquet.read_metadata)
        )
        leaves = [metadata.schema.column(k) for k in range(metadata.num_columns)]
        texts = [
            leaf.path for leaf in leaves
            if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL"
        ]  # fmt: skip
        wide = {leaf.path for leaf in leaves if leaf.length > _WIDEST}
        with pyarrow.parquet.ParquetFile(content, read_dictionary=texts) as file:
            names = [
                field.name for field in schema
                if field.name not in wide and not pyarrow.types.is_nested(field.type)
            ]  # fmt: skip
            twice = [name for name, count in Counter(schema.names).items() if count > 1]
            if twice:
                problem = "two columns have this name"
                raise DataError(problem, file=path, column=twice[0], fix="Rename one.")
            _require_plausible(file.metadata, held)
            if not names or not file.metadata.num_rows:
                raise DataError("holds no rows of plain values", file=path)
            for block in blocks(
                enumerate(_parquet_rows(file, names, most_bytes(held), path), 1), size, path
            ):
                rows, numbers = [row for _, row in block], [number for number, _ in block]
                yield Grid(names, rows, numbers, [], header=True, numbered=False, notes=[])


def _parquet_rows(file: Any, names: list[str], left: int, path: Path) -> Iterator[list[object]]:
    """Yield the rows, whose texts have at most ``left`` characters in all."""
    for batch in file.iter_batches(BATCH, columns=names):
        columns = batch.select(names).columns  # a nested a comes along with a plain a.b
        for row in zip(*map(_cells, columns), strict=True):
            left -= sum(len(cell) for cell in row if isinstance(cell, str | bytes))
            if left < 0:
                problem = "its texts repeat so often that they need far more memory"
                raise DataError(problem, file=path, fix="Drop the columns of long equal texts.")
            yield list(row)


def _cells(column: Any) -> list[object]:
    """Return the cells of a column; equal texts are one object, so few bytes stay few."""
    if not hasattr(column, "dictionary"):
        return column.to_pylist()
    numbers = column.indices
    used = numbers.unique().drop_null()
    words = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [words.get(k) for k in numbers.to_pylist()]


@contextmanager
def _as_data_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # pyarrow raises many types on damaged files
        fix = "Write or download the file again; is it Parquet?"
        problem = f"cannot be read as Parquet: {reason(error)}"
        raise DataError(problem, file=path, fix=fix) from None


def _require_plausible(metadata: Any, size: int) -> None:
    """Reject a file that declares far more rows or bytes than compression makes possible."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    held = sum(max(0, group.total_byte_size) for group in groups)
    if rows > 100_000 + 8 * size or held > (16 << 20) + MAX_EXPANSION * size:
        raise ValueError(f"{rows:,} rows of {held:,} bytes are declared in {size:,} bytes")
