"""JSON files: one object on each line, or one document with an array of objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from representer.data.tables.blocks import SMALL, BlockSize, blocks
from representer.data.tables.grid import BLANK, MISSING, Dropped, Grid, require_filled
from representer.data.tables.source import first_lines, physical_lines
from representer.errors import DataError
from representer.storage.files import parse_json

_FIX = 'Every line is an object, such as {"text": "...", "label": "..."}.'


def read_jsonl(path: Path, *, encoding: str = "utf-8", size: BlockSize = SMALL) -> Iterator[Grid]:
    """Yield the blocks of a JSON file. The keys of the first object are the columns.

    A document instead of lines is an array of objects, an object with one such array, or an object
    with an array for each column; its rows are numbered from 1.

    Raises:
        DataError: If a line is not a JSON object, or has duplicate keys.
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

    for block in blocks(rows(), size):
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
    if head[:1] == "[" or head[-1:] in ("{", "[", ",", ":"):
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
    arrays = [one for one in value.values() if isinstance(one, list)]
    if len(arrays) == 1 and all(isinstance(one, dict) for one in arrays[0]):
        return arrays[0] or [value]
    columns = [[*one.values()] if isinstance(one, dict) else one for one in value.values()]
    sizes = {len(one) if isinstance(one, list) else 0 for one in columns}
    if len(sizes) != 1 or 0 in sizes:
        return [value]
    if any(isinstance(cell, list | dict) for one in columns for cell in one):
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
