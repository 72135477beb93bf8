"""Using a trained text classifier: ``evaluate`` and ``predict``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import Grid, read_grid
from representer.data.text import assemble, read_table
from representer.errors import ArgumentError
from representer.estimators.fitting import outputs_of
from representer.printable import say
from representer.storage.run_files import require_finite
from representer.tasks.metrics import classification_metrics
from representer.tasks.table_file import (
    as_csv,
    check_output,
    refuse_same_columns,
    shown_cell,
    write_table,
)
from representer.tasks.text.text_config import ReadOptions
from representer.tasks.text.text_data import encode_labels
from representer.tasks.text.text_run import TrainedText, load_run

PREDICTION = "prediction"


def evaluate(run: str | Path, data: str | Path, options: ReadOptions) -> dict[str, Any]:
    """Evaluate a trained classifier on a labeled table.

    Args:
        run: The run folder.
        data: The table.
        options: How to read it; columns that are not named are those of the training data.

    Returns:
        The metrics of ``classification_metrics``, with the names of run and data.

    Raises:
        DataError: If the table cannot be used, for example for an unknown label.
    """
    trained = load_run(run)
    table = read_table(data, **asdict(like_training(trained, options)))
    for line in (*table.notes, table.dropped_summary()):
        if line:
            say(f"{table.source}: {line}")
    truth = np.asarray(encode_labels(table, trained.classes))
    predicted = _probabilities(trained, trained.encode(table.texts))
    require_finite(run, predicted)
    metrics = classification_metrics(truth, predicted, trained.classes.names)
    return {"run": str(run), "data": str(data), "left_out": len(table.dropped), **metrics}


def predict(
    run: str | Path, data: str | Path, output: str | Path | None, options: ReadOptions
) -> None:
    """Write the rows of a table, in order, with a prediction and the probability of each class.

    A row without text keeps its place, with an empty prediction; stderr says which.

    Args:
        run: The run folder.
        data: The table.
        output: CSV file, written atomically; stdout if None.
        options: How to read the table.

    Raises:
        DataError: If the table or the path of the output cannot be used.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    trained = load_run(run)
    reading = asdict(like_training(trained, options))
    text = reading.pop("text")
    reading.pop("label")
    grid = read_grid(data, text.split(","), **reading)
    table = assemble(grid, str(data), text, None, require_label=False)
    for line in grid.notes:
        say(f"{table.source}: {line}")
    documents = trained.encode(table.texts)
    predicted = _probabilities(trained, documents)
    require_finite(run, predicted)
    rows: dict[int, list[str]] = {}
    for line, words, chances in zip(table.lines, documents, predicted, strict=True):
        if words:
            name = trained.classes.decode(int(chances.argmax()))
            rows[line] = [name, *(f"{chance:.6f}" for chance in chances)]
    columns = [PREDICTION, *(f"probability_{name}" for name in trained.classes.names)]
    empty = [line for line in grid.lines if line not in rows]
    if empty:
        shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        say(f"{table.source}: no prediction for {len(empty)} rows without text (lines {shown})")
    write_table(output, _as_csv(grid, str(data), columns, rows))


def _probabilities(trained: TrainedText, documents: Sequence[list[int]]) -> NDArray[np.float64]:
    """Return the probability of each class ``(N, C)``."""
    outputs = outputs_of(trained.model, trained.estimator.inputs_, documents)
    return trained.target.probabilities(outputs)


def like_training(trained: TrainedText, options: ReadOptions) -> ReadOptions:
    """Return the options, with the columns of the training data as defaults.

    Raises:
        ArgumentError: The run was saved from Python, and no column of texts is named.
    """
    text, label = options.text or trained.reading.text, options.label or trained.reading.label
    if not text:
        hint = "The run says nothing about tables: it was saved from Python."
        raise ArgumentError("text", text, "the column with the texts", hint=hint)
    return replace(options, text=text, label=label)


def _as_csv(grid: Grid, source: str, added: Sequence[str], rows: dict[int, list[str]]) -> str:
    refuse_same_columns(added, grid.columns, source)
    nothing = [""] * len(added)
    body = (
        [*map(shown_cell, cells), *rows.get(line, nothing)]
        for cells, line in zip(grid.rows, grid.lines, strict=True)
    )
    return as_csv([[*grid.columns, *added], *body])
