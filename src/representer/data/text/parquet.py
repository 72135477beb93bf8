"""Parquet files, through pyarrow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from representer.data.text.grid import Grid
from representer.data.text.source import regular_file
from representer.errors import DataError, MissingExtraError


def read_parquet(path: Path) -> Grid:
    """Read the columns of a Parquet file that hold plain values. Its lines are row numbers.

    Raises:
        MissingExtraError: If pyarrow is not installed.
        DataError: If the file is missing, damaged, or has no such column.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading Parquet", "pyarrow", "train") from None

    regular_file(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = [field.name for field in schema if not pyarrow.types.is_nested(field.type)]
            twice = [name for name, count in Counter(schema.names).items() if count > 1]
            if twice:
                problem = "two columns have this name"
                raise DataError(problem, file=path, column=twice[0], mend="Rename one.")
            values = [column.to_pylist() for column in file.read(columns=names).columns]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        mend = "Write or fetch the file again; is it Parquet?"
        raise DataError(f"cannot be read as Parquet: {error}", file=path, mend=mend) from None
    if not names or not values[0]:
        raise DataError("holds no rows of plain values", file=path)
    rows: list[list[object]] = [list(row) for row in zip(*values, strict=True)]
    numbers = list(range(1, len(rows) + 1))
    return Grid(names, rows, numbers, [], header=True, numbered=False, notes=[])
