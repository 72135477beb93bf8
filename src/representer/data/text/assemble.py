"""Conversion of the rows of a file to documents and labels."""

from __future__ import annotations

import json
import math

from representer.data.tables.columns import guess_label, guess_text, resolve
from representer.data.tables.grid import MISSING, Dropped, Grid
from representer.data.text.table import Table
from representer.errors import ArgumentError, DataError


def assemble(
    grid: Grid, source: str, text: str | None, label: str | None, *, require_label: bool
) -> Table:
    """Select the columns of the text and the label, and keep the rows that have both.

    Args:
        grid: The rows.
        source: The file.
        text: The requested columns, or None.
        label: The requested column, or None.
        require_label: Drop rows without a label.

    Raises:
        ArgumentError: If the label is several columns or one of the text columns.
        DataError: If a column is missing or ambiguous, a cell is neither text nor a plain value,
            or no row is left.
    """
    texts = resolve(grid, text, "text", source) if text else []
    labels = resolve(grid, label, "label", source) if label else []
    notes = list(grid.notes)
    if len(labels) > 1:
        raise ArgumentError("label", label, "one column")
    if set(texts) & set(labels):
        name = grid.columns[labels[0]]
        raise ArgumentError("label", name, "a column other than the text")
    if not texts:
        known = labels[0] if labels else guess_label(grid, [], source, required=False)
        texts = [guess_text(grid, known, source)]
        notes.append(f"The text is taken from column {grid.columns[texts[0]]!r}.")
    at = labels[0] if labels else guess_label(grid, texts, source, required=require_label)
    if at is not None and not labels:
        notes.append(f"The label is taken from column {grid.columns[at]!r}.")
    return _fill(grid, source, texts, at, notes, require_label=require_label)


def _fill(
    grid: Grid,
    source: str,
    texts: list[int],
    at: int | None,
    notes: list[str],
    *,
    require_label: bool,
) -> Table:
    kept: list[tuple[str, str, int]] = []
    dropped = list(grid.dropped)
    for row, line in zip(grid.rows, grid.lines, strict=True):
        parts = [_cell(row[i], source, line, grid.columns[i], is_text=True) for i in texts]
        document = " ".join(part for part in parts if part.strip())
        name = _cell(row[at], source, line, grid.columns[at]).strip() if at is not None else ""
        if not document:
            dropped.append(Dropped(line, "empty text"))
        elif require_label and not name:
            dropped.append(Dropped(line, "empty label"))
        else:
            kept.append((document, name, line))
    dropped.sort(key=lambda row: row.line)
    text_column = ",".join(grid.columns[i] for i in texts)
    if not kept:
        why = " and ".join(sorted({row.reason for row in dropped}))
        fix = "Are these the right columns?"
        problem = f"none of the {len(dropped)} rows can be used ({why})"
        raise DataError(problem, file=source, column=text_column, fix=fix)
    return Table(
        texts=[document for document, _, _ in kept],
        labels=None if at is None else [name for _, name, _ in kept],
        lines=[line for _, _, line in kept],
        columns=grid.columns,
        text_column=text_column,
        label_column=None if at is None else grid.columns[at],
        dropped=dropped,
        source=source,
        header=grid.header,
        notes=notes,
    )


def _cell(value: object, source: str, line: int, column: str, *, is_text: bool = False) -> str:
    """Return a cell as text; only text and plain values are allowed."""
    if value is None or (isinstance(value, float) and math.isnan(value) and not is_text):
        return ""
    if value is MISSING:
        problem = "the object has no such key"
        fix = "Every object needs this key; use null for an empty cell."
        raise DataError(problem, file=source, line=line, column=column, fix=fix)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            problem = "half of a surrogate pair, which is not a character"
            raise DataError(problem, file=source, line=line, column=column) from None
        return value
    plain = isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))
    if is_text or not plain:
        what, expected = type(value).__name__, "text" if is_text else "text or a number"
        problem = f"a value of type {what}; expected {expected}"
        fix = f"Name the column that holds the {'text' if is_text else 'label'}."
        raise DataError(problem, file=source, line=line, column=column, fix=fix)
    return json.dumps(value)
