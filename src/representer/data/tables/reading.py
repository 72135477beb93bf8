"""All cells of a CSV, TSV, JSON Lines or Parquet file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from representer.data.tables.delimited import read_delimited
from representer.data.tables.grid import Grid
from representer.data.tables.jsonl import read_jsonl
from representer.data.tables.parquet import read_parquet
from representer.data.tables.source import COMPRESSIONS, regular_file
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


def read_grid(
    path: str | PathLike[str],
    wanted: list[str],
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
) -> Grid:
    """Read all cells of a file; no row is ever shifted or lost silently.

    The suffix determines the format: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.ndjson``, ``.json``),
    each optionally followed by ``.gz``, ``.bz2`` or ``.xz``, and ``.parquet``.

    Args:
        path: The file.
        wanted: The columns that will be used, which help to detect a header.
        header: True if the first row of a CSV or TSV file names the columns; None decides by the
            rows.
        delimiter: The cell separator of a CSV or TSV file; None decides by the suffix and the first
            line.
        quotes: True if double quotes enclose cells of a CSV or TSV file. None means True, except
            that a quoted cell of a TSV file may not span lines.
        encoding: Encoding of the file.

    Raises:
        ArgumentError: If an option is invalid.
        DataError: If the file cannot be used. The message names the file, the line, the column and
            the fix.
        MissingExtraError: If the file is Parquet and pyarrow is not installed.
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
        fix = "Decompress the file first; Parquet is compressed inside."
        raise DataError("a compressed Parquet file", file=path, fix=fix)
    if kind is None:
        regular_file(path)  # the message for a missing file or a folder is more useful
        known = f"{', '.join(FORMATS)}; text formats also with {', '.join(COMPRESSIONS)}"
        fix = f"Rename the file to the suffix of its format: {known}."
        raise DataError("the suffix is not that of a supported format", file=path, fix=fix)
    return kind
