"""JSON Lines files: one object on each line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from representer.data.tables.blocks import SMALL, BlockSize, blocks
from representer.data.tables.grid import BLANK, MISSING, Dropped, Grid
from representer.data.tables.source import physical_lines
from representer.errors import DataError
from representer.storage.files import parse_json

_FIX = 'Every line is an object, such as {"text": "...", "label": "..."}.'


def read_jsonl(path: Path, *, encoding: str = "utf-8", size: BlockSize = SMALL) -> Iterator[Grid]:
    """Yield the blocks of a JSON Lines file. The keys of the first object are the columns.

    Raises:
        DataError: If a line is not a JSON object, or has duplicate keys.
    """
    columns: list[str] = []

    def rows() -> Iterator[tuple[int, list[object] | str]]:
        blank: list[int] = []  # since the last row; those at the end of the file are not reported
        for number, line in enumerate(physical_lines(path, encoding), 1):
            if not line.strip():
                blank.append(number)
                continue
            record = _object(path, number, line)
            yield from ((each, BLANK) for each in blank)
            blank = []
            columns[:] = columns or record
            yield number, [record.get(column, MISSING) for column in columns]

    for block in blocks(rows(), size):
        if not columns:
            continue
        kept = [(line, row) for line, row in block if not isinstance(row, str)]
        dropped = [Dropped(line, row) for line, row in block if isinstance(row, str)]
        cells, lines = [row for _, row in kept], [line for line, _ in kept]
        yield Grid(columns, cells, lines, dropped, header=True, numbered=False, notes=[])
    if not columns:
        raise DataError("contains no objects with keys", file=path, fix=_FIX)


def _object(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        record = parse_json(line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at character {error.pos + 1}"
        raise DataError(problem, file=path, line=number, fix=_FIX) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=path, line=number, fix=_FIX) from None
    if not isinstance(record, dict):
        problem = f"a JSON {_KINDS.get(type(record), 'value')}, not an object"
        raise DataError(problem, file=path, line=number, fix=_FIX)
    return record


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        ((duplicate, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {duplicate!r} occurs twice")
    return record


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "truth value"}
