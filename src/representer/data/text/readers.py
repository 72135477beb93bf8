"""Reading labeled documents from CSV, TSV, JSON Lines or Parquet files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from representer.data.text.assemble import assemble
from representer.data.text.columns import requested
from representer.data.text.delimited import read_delimited
from representer.data.text.grid import Grid
from representer.data.text.jsonl import read_jsonl
from representer.data.text.parquet import read_parquet
from representer.data.text.source import COMPRESSIONS, regular_file
from representer.data.text.table import Table
from representer.errors import DataError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def read_table(
    path: str | PathLike[str],
    text: str | None = None,
    label: str | None = None,
    *,
    require_label: bool = True,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
) -> Table:
    """Read documents and labels from a file, without ever shifting or losing a row in silence.

    The format follows the suffix: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.ndjson``, ``.json``),
    each also with ``.gz``, ``.bz2`` or ``.xz`` behind it, and ``.parquet``. Columns that are not
    named are guessed; the guess is in ``Table.notes``, and an unclear one is refused.

    Rows without text, and rows without a label where labels are required, are left out and
    listed in ``Table.dropped``. Labels lose the blanks around them; texts stay as they are.

    Args:
        path: The file.
        text: The column of the text; several with commas between them are joined by a space. In
            CSV and TSV files a column may also be its number, from 1.
        label: The column of the label.
        require_label: Whether every document needs a label. If not, a label column is used when
            it is named or has a usual name, and a row without a label has the label ``""``.
        header: Whether the first row of a CSV or TSV file names the columns; None decides by the
            rows.
        delimiter: What separates the cells of a CSV or TSV file; None decides by the suffix and
            the first line.
        quotes: Whether double quotes around a cell of a CSV or TSV file are marks. None means
            yes, but a quoted cell of a TSV file may then not span lines.
        encoding: Encoding of the file.

    Returns:
        The table.

    Raises:
        ArgumentError: If an option has no meaning.
        DataError: If the file cannot be used. It names the file, the line, the column and the
            mend.
        MissingExtraError: If the file is Parquet and pyarrow is not installed.
    """
    grid = read_grid(
        path,
        requested(text) + requested(label),
        header=header,
        delimiter=delimiter,
        quotes=quotes,
        encoding=encoding,
    )
    return assemble(grid, str(Path(path)), text, label, require_label=require_label)


def read_grid(
    path: str | PathLike[str],
    wanted: list[str],
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
) -> Grid:
    """Read all cells of a file; arguments and errors are those of :func:`read_table`.

    Args:
        path: The file.
        wanted: The columns that will be asked for, which help to recognize a header.
        header: As in :func:`read_table`.
        delimiter: As there.
        quotes: As there.
        encoding: As there.
    """
    path = Path(path)
    kind = _format(path)
    if kind == "parquet":
        return read_parquet(path)
    if kind == "jsonl":
        return read_jsonl(path, encoding=encoding)
    return read_delimited(
        path,
        wanted=wanted,
        header=header,
        delimiter=delimiter,
        quotes=quotes,
        encoding=encoding,
    )


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    kind = FORMATS.get(suffixes[-1 - compressed]) if len(suffixes) > compressed else None
    if kind == "parquet" and compressed:
        mend = "Decompress the file first; Parquet is compressed inside."
        raise DataError("a compressed Parquet file", file=path, mend=mend)
    if kind is None:
        regular_file(path)  # a missing file or a folder is the more useful message
        known = f"{', '.join(FORMATS)}; text formats also with {', '.join(COMPRESSIONS)}"
        mend = f"Rename the file so that it ends with what it is: {known}."
        raise DataError("the suffix names no format that can be read", file=path, mend=mend)
    return kind
