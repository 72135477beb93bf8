"""The rows of a table with their predictions, block by block in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.data.tables import LeftOut
from representer.report.results import Predictions
from representer.tasks.estimator_objects import Objects, none_usable, with_notes
from representer.tasks.table_file import (
    added_columns,
    as_csv,
    check_output,
    refuse_same_columns,
    shown_cell,
)


def predicted_table(
    blocks: Iterable[Objects],
    predict: Callable[[Objects], Sequence[Predictions]],
    reason: Callable[[Any], str],
    classes: Sequence[Sequence[str]],
    noun: str,
    output: str | Path | None,
) -> Iterator[str]:
    """Yield the text of a CSV file with the rows of the input, in order, and their predictions.

    A row that cannot be used keeps its place without a prediction; stderr says which.

    Args:
        blocks: The objects, in consecutive blocks.
        predict: From some objects to the predictions of each target.
        reason: From an object to the reason against using it, empty if there is none.
        classes: Names of the classes of each target; none for numbers.
        noun: One object: "graph".
        output: The file that is written, which must not be one of those that are read.

    Raises:
        DataError: The objects cannot be used.
    """
    head: list[str] = []  # known from the first predictions on
    waiting: list[list[str]] = []
    dropped = LeftOut()
    source, column = "", None
    kept = (block.without(reason) for block in blocks)
    for objects in with_notes(kept, "without a prediction"):
        source, column, rows = objects.source, objects.column, dict[int, list[str]]()
        for file in objects.files if output is not None else ():
            check_output(Path(output or ""), file)
        dropped.add(objects.dropped)
        if len(objects):
            predictions = predict(objects)
            added, rows = added_columns(objects, predictions, classes)
            if not head:
                columns = objects.table.head if objects.table else [noun]
                refuse_same_columns(added, columns, objects.source)
                head = [*columns, *added]
                yield as_csv([head])
        waiting += _written(objects, rows)
        if head:
            yield as_csv([*row, *[""] * (len(head) - len(row))] for row in waiting)
            waiting = []
    if not head:
        raise none_usable(dropped.total, dropped, noun, source, column)


def _written(objects: Objects, rows: Mapping[int, list[str]]) -> Iterator[list[str]]:
    """Yield the rows of a block, each with its predictions if it has any."""
    if objects.table is None:
        cells = [[str(row)] for row in objects.rows]
        lines = objects.lines
    else:
        cells = [[*map(shown_cell, own)] for own in objects.table.rows]
        lines = objects.table.lines
    for line, own in zip(lines, cells, strict=True):
        yield [*own, *rows.get(line, ())]
