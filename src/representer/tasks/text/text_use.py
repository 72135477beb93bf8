"""Using a trained text classifier: ``evaluate`` and ``predict``."""

from __future__ import annotations

import csv
import io
import json
import stat
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.text import MISSING, Grid, assemble, read_grid, read_table
from representer.errors import DataError, StorageError
from representer.tasks.metrics import classification_metrics
from representer.tasks.storage import atomic
from representer.tasks.text.text_config import ReadOptions
from representer.tasks.text.text_data import encode_labels
from representer.tasks.text.text_model import probabilities
from representer.tasks.text.text_run import TrainedText, load_run
from representer.tasks.training.progress import say

PREDICTION = "prediction"


def evaluate(run: str | Path, data: str | Path, options: ReadOptions) -> dict[str, Any]:
    """Test a trained classifier on a labelled table.

    Args:
        run: The run folder.
        data: The table.
        options: How to read it; the columns are those of the training data where not named.

    Returns:
        The metrics of ``classification_metrics``, and what they are of.

    Raises:
        DataError: If the table cannot be used, for example for a label that is no class.
    """
    trained = load_run(run)
    table = read_table(data, **asdict(_like_training(trained, options)))
    for line in (*table.notes, table.dropped_summary()):
        if line:
            say(f"{table.source}: {line}")
    truth = np.asarray(encode_labels(table, trained.classes))
    found = probabilities(trained.model, trained.encode(table.texts))
    metrics = classification_metrics(truth, found, trained.classes.names)
    return {"run": str(run), "data": str(data), "left_out": len(table.dropped), **metrics}


def predict(
    run: str | Path, data: str | Path, output: str | Path | None, options: ReadOptions
) -> None:
    """Write the rows of a table, in order, with a prediction and the probability of each class.

    A row without text keeps its place, with an empty prediction; stderr says which.

    Args:
        run: The run folder.
        data: The table.
        output: CSV file, written whole or not at all; stdout if None.
        options: How to read the table.

    Raises:
        DataError: If the table cannot be used, or the output cannot be where it should.
        StorageError: If the output cannot be written.
    """
    if output is not None:
        _check_output(Path(output), Path(data))
    trained = load_run(run)
    reading = asdict(_like_training(trained, options))
    text = reading.pop("text")
    reading.pop("label")
    grid = read_grid(data, text.split(","), **reading)
    table = assemble(grid, str(data), text, None, require_label=False)
    for line in grid.notes:
        say(f"{table.source}: {line}")
    documents = trained.encode(table.texts)
    found = probabilities(trained.model, documents)
    rows: dict[int, list[str]] = {}
    for line, words, chances in zip(table.lines, documents, found, strict=True):
        if words:
            name = trained.classes.decode(int(chances.argmax()))
            rows[line] = [name, *(f"{chance:.6f}" for chance in chances)]
    columns = [PREDICTION, *(f"probability_{name}" for name in trained.classes.names)]
    empty = [line for line in grid.lines if line not in rows]
    if empty:
        shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        say(f"{table.source}: no prediction for {len(empty)} rows without text (lines {shown})")
    _write(output, _as_csv(grid, str(data), columns, rows))


def _like_training(trained: TrainedText, options: ReadOptions) -> ReadOptions:
    """Return the options, with the training data's columns where none are named."""
    text, label = options.text or trained.reading.text, options.label or trained.reading.label
    return replace(options, text=text, label=label)


def _check_output(output: Path, data: Path) -> None:
    """Refuse an output that could not be written, before any work is done."""
    if output.is_dir():
        raise DataError("is a directory", file=output, mend="Give -o the name of a file.")
    if not output.parent.is_dir():
        raise DataError("there is no such folder", file=output.parent, mend="Make it first.")
    if data.exists() and output.exists() and output.samefile(data):
        raise DataError("is the input", file=output, mend="Give -o another name.")


def _as_csv(grid: Grid, source: str, added: Sequence[str], rows: dict[int, list[str]]) -> str:
    for name in added:
        if name in grid.columns:
            mend = "Rename it in the input."
            raise DataError(
                "the input has this column already", file=source, column=name, mend=mend
            )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*grid.columns, *added])
    nothing = [""] * len(added)
    for cells, line in zip(grid.rows, grid.lines, strict=True):
        writer.writerow([*map(_cell, cells), *rows.get(line, nothing)])
    return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    return (
        ""
        if value is None or value is MISSING
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def _write(output: str | Path | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    path = Path(output)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe: not replaced
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(path, error) from error
        return
    atomic.write_text(path, text)
