"""Labeled documents in CSV, TSV, JSON Lines or Parquet files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from representer.data.tables.columns import requested
from representer.data.tables.reading import read_grid
from representer.data.text.assemble import assemble
from representer.data.text.table import Table


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
    """Read documents and labels from a file of any format that :func:`read_grid` reads.

    Columns that are not given are inferred, with a note in ``Table.notes``; ambiguity is an error.

    Rows without text, and rows without a required label, are dropped and listed in
    ``Table.dropped``. Whitespace around labels is removed; texts are not changed.

    Args:
        path: The file.
        text: The column of the text; several, separated by commas, are joined by a space. In CSV
            and TSV files a column may also be given by its number, starting at 1.
        label: The column of the label.
        require_label: Require a label for every document. If False, a label column is used if it is
            given or has a common name, and a row without a label has the label ``""``.
        header: As in :func:`read_grid`.
        delimiter: As in :func:`read_grid`.
        quotes: As in :func:`read_grid`.
        encoding: Encoding of the file.

    Returns:
        The table.

    Raises:
        DataError: If a column is missing or ambiguous, or no row can be used; otherwise as in
            :func:`read_grid`.
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
