"""Reading of workbooks of Excel and LibreOffice with calamine, as if they were saved as CSV."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

from representer.data.tables.blocks import SMALL, BlockSize
from representer.data.tables.columns import count_names
from representer.data.tables.grid import BLANK, Grid, text_of
from representer.data.tables.header import ABOVE, grids, rows_above
from representer.data.tables.source import open_regular
from representer.data.tables.workbook_layout import check_workbook
from representer.errors import DataError, MissingExtraError
from representer.printable import reason

_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, expat.ExpatError, NotImplementedError)


def read_workbook(
    path: Path, *, wanted: list[str], header: bool | None = None, size: BlockSize = SMALL
) -> Iterator[Grid]:
    """Return a sheet in blocks: the first whose header has the usual names, or the largest.

    All cells are texts as in a CSV file: 3 rather than 3.0, dates in ISO 8601, formulas as their
    values, and errors such as ``#N/A`` empty. The lines are the numbers of the rows.

    Args:
        path: The file.
        wanted: Names or positions of the columns that will be used; they help to detect a header.
        header: True if the first row names the columns; None to decide from the first rows.
        size: Limits of a block.

    Raises:
        MissingExtraError: If python-calamine is not installed.
        DataError: If the file is missing, damaged, protected by a password, or has no cells.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise MissingExtraError("reading workbooks", "python-calamine", "train") from None
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
        except (CalamineError, ValueError, OSError, *_DAMAGED) as error:
            fix = "Save it again, without a password, or as CSV."
            problem = f"cannot be read as a workbook: {reason(error)}"
            raise DataError(problem, file=path, fix=fix) from None
    notes = [f"The sheet {name!r} is read, of {count}."] if count > 1 else []
    return grids(path, _rows(rows), wanted, header, size, notes)


def _rows(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, list[str] | str]]:
    for line, row in enumerate(rows, 1):
        cells = [_text(cell) for cell in row]
        yield line, cells if any(map(str.strip, cells)) else BLANK


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return text_of(cell)
