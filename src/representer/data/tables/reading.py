"""The cells of a CSV, TSV, JSON Lines or Parquet file, or of a workbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from representer.data.tables.blocks import SMALL, WHOLE, BlockSize
from representer.data.tables.delimited import read_delimited
from representer.data.tables.formats import TABLES, format_of
from representer.data.tables.grid import Grid
from representer.data.tables.jsonl import read_jsonl
from representer.data.tables.lines import content_of, read_lines
from representer.data.tables.parquet import read_parquet
from representer.data.tables.source import COMPRESSIONS, regular_file, uncompressed
from representer.data.tables.workbook import read_workbook
from representer.errors import DataError


def read_grid(path: str | PathLike[str], wanted: list[str], **layout: Any) -> Grid:
    """Return all cells of a file, see `read_blocks`."""
    (grid,) = read_blocks(path, wanted, **layout, size=WHOLE)
    return grid


def read_blocks(
    path: str | PathLike[str],
    wanted: list[str],
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    size: BlockSize = SMALL,
) -> Iterator[Grid]:
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
    kind = table_format(path, wanted, encoding)
    if kind in ("lines", "labeled"):
        is_labeled = kind == "labeled"
        return read_lines(path, wanted=wanted, encoding=encoding, size=size, is_labeled=is_labeled)
    if kind == "parquet":
        return read_parquet(path, size=size)
    if kind == "workbook":
        return read_workbook(path, wanted=wanted, header=header, size=size)
    if kind == "jsonl":
        return read_jsonl(path, encoding=encoding, size=size)
    return read_delimited(
        path,
        wanted=wanted,
        header=header,
        delimiter=delimiter,
        quotes=quotes,
        encoding=encoding,
        size=size,
        is_tsv=kind == "tsv",
    )


def table_files(path: str | PathLike[str]) -> list[Path]:
    """Return the files of a table: a file, the tables of a folder, or those that match a pattern.

    Args:
        path: A file, a folder, or a pattern such as ``"data/part-*.csv"``. Of a folder, all files
            with the suffix of a table are taken, without those of its subfolders and hidden ones.

    Returns:
        The files, sorted by name.

    Raises:
        DataError: If there are none, or a folder has tables of several formats.
    """
    path = Path(path)
    if path.is_dir():
        found = [one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")]
        found = [one for one in found if kind_of(one) is not None]
        if not found:
            fix = f"The suffix of a table is one of {', '.join(TABLES)}."
            raise DataError("the folder holds no tables", file=path, fix=fix)
        if len(kinds := {str(kind_of(one)) for one in found}) > 1:
            fix = 'Pass a pattern, such as "FOLDER/*.csv".'
            problem = f"the folder holds tables of several formats: {', '.join(sorted(kinds))}"
            raise DataError(problem, file=path, fix=fix)
        return sorted(found)
    if any(mark in str(path) for mark in "*?[") and not path.exists():
        pattern = str(path.relative_to(path.anchor))
        matching = sorted(Path(path.anchor).glob(pattern))
        found = [one for one in matching if path.name[0] == "." or one.name[0] != "."]
        if not found:
            raise DataError("no file matches the pattern", file=path)
        return found
    return [path]


def named_table(folder: Path, name: str) -> Path | None:
    """Return the table of a name in a folder, such as ``name.csv``; None if there is none.

    Raises:
        DataError: If there are several.
    """
    found = sorted(one for one in folder.glob(f"{name}.*") if kind_of(one) is not None)
    if len(found) > 1:
        listed = ", ".join(one.name for one in found)
        raise DataError(f"holds several: {listed}", file=folder, fix="Remove all but one.")
    return found[0] if found else None


def kind_of(path: Path) -> str | None:
    """Return the format of a table by its suffix; None if it is none."""
    return format_of(path) if uncompressed(path).suffix.lower() in TABLES else None


def table_format(path: Path, wanted: Sequence[str] = (), encoding: str = "utf-8") -> str:
    """Return the format of a table by its suffix or, of a text, by its first lines.

    Raises:
        DataError: If it is none, or cannot be read.
    """
    kind = format_of(path) if format_of(path) == "lines" else kind_of(path)
    if kind in ("csv", "tsv", "lines"):
        shown = content_of(path, encoding, list(wanted))
        return shown if kind == "lines" or shown == "labeled" else kind
    if kind in ("parquet", "workbook") and path.suffix.lower() in COMPRESSIONS:
        what = "Parquet file" if kind == "parquet" else kind
        fix = f"Decompress the file first; a {what} is compressed inside."
        raise DataError(f"a compressed {what}", file=path, fix=fix)
    if kind is None:
        regular_file(path)  # the message for a missing file or a folder is more useful
        known = f"{', '.join(TABLES)}; text formats also with {', '.join(COMPRESSIONS)}"
        fix = f"Rename the file to the suffix of its format: {known}."
        raise DataError("the suffix is not that of a supported format", file=path, fix=fix)
    return kind
