"""Reading of Parquet files with pyarrow."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from representer.data.tables.blocks import SMALL, BlockSize, blocks
from representer.data.tables.grid import Grid
from representer.data.tables.source import MAX_EXPANSION, most_bytes, open_regular
from representer.errors import DataError, MissingExtraError
from representer.printable import reason

BATCH = 1024  # rows that are decoded together
_WIDEST = 1024  # bytes of a cell of fixed width, which is never shared


def read_parquet(path: Path, *, size: BlockSize = SMALL) -> Iterator[Grid]:
    """Yield the columns of plain values of a Parquet file in blocks, with row numbers as lines.

    Raises:
        MissingExtraError: If pyarrow is not installed.
        DataError: If the file is missing, damaged, or has no such column.
    """
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
            for block in blocks(enumerate(_rows(file, names, most_bytes(held), path), 1), size):
                rows, numbers = [row for _, row in block], [number for number, _ in block]
                yield Grid(names, rows, numbers, [], header=True, numbered=False, notes=[])


def _rows(file: Any, names: list[str], left: int, path: Path) -> Iterator[list[object]]:
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
