"""The rows of a table with their predictions, block by block in constant memory."""

from __future__ import annotations

import csv
import hashlib
import json
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.tables import MISSING, LeftOut
from representer.data.tables.files import COMPRESSIONS, GUARDED, guard_formula, uncompressed
from representer.data.tables.reading import kind_of, table_files
from representer.errors import ArgumentError, DataError, StorageError, printable, say
from representer.estimators.label_sets import LabelSets, sets_of
from representer.jobs import completed
from representer.report.page import Predictions
from representer.storage import atomic
from representer.storage.run import OF_PREDICTIONS
from representer.tasks.objects import Objects, none_usable, with_notes
from representer.tasks.options import Task
from representer.tasks.worklist import WorkList, locked

# Tables that commands write: checks of the output before any work, CSV, and atomic writing.


def check_output(output: Path, data: Path | None) -> None:
    """Refuse an output that could not be written, before any work is done."""
    if output.is_dir():
        raise DataError("is a directory", file=output, fix="Give -o the name of a file.")
    if not output.parent.is_dir():
        raise DataError("there is no such folder", file=output.parent, fix="Make it first.")
    if kind_of(output) not in (None, "csv") or output.suffix.lower() in COMPRESSIONS:
        problem = "the suffix is that of another format; what is written is CSV"
        raise DataError(problem, file=output, fix="Give -o a name that ends in .csv.")
    if data is not None and data.exists() and output.exists() and output.samefile(data):
        raise DataError("is the input", file=output, fix="Give -o another name.")


def refuse_same_columns(added: Sequence[str], columns: Sequence[str], source: str) -> None:
    """Refuse to add columns that the input already has."""
    for name in added:
        if name in columns:
            fix = "Rename it in the input."
            problem = "the input already has this column"
            raise DataError(problem, file=source, column=name, fix=fix)


def added_columns(
    objects: Objects, predictions: Sequence[Predictions], classes: Sequence[Sequence[str]],
    labels: LabelSets | None = None,
) -> tuple[list[str], dict[int, list[str]]]:  # fmt: skip
    """Return the names of the added columns, and their cells by line.

    Of any number of labels an object, they are the list of the predicted ones, in JSON, and the
    probability of each label; of labels in columns of their own, their predictions, too.
    """
    if labels is not None:
        return _columns_of_sets(objects, predictions, labels)
    names = objects.targets if len(objects.targets) == len(predictions) else ()
    ends = [f"_{name}" for name in names or range(1, len(predictions) + 1)]
    added: list[str] = []
    parts: list[list[list[str]]] = []
    for k, columns in enumerate(predictions):
        end = ends[k] if len(predictions) > 1 else ""
        if columns.chances is not None:
            added += [f"prediction{end}", f"probability{end}"]
            pairs = zip(columns.values.tolist(), columns.chances.tolist(), strict=True)
            parts.append([[classes[k][int(number)], f"{chance:.6f}"] for number, chance in pairs])
            continue
        if columns.probabilities is None:
            added += [f"prediction{end}", f"uncertainty{end}"]
            deviations = np.zeros(0) if columns.deviations is None else columns.deviations
            numbers = [columns.values, deviations]
            if columns.half_widths is not None:
                added += [f"low{end}", f"high{end}"]
                numbers += [
                    columns.values - columns.half_widths,
                    columns.values + columns.half_widths,
                ]
            rows = np.stack(numbers, 1).tolist()
            parts.append([[f"{number:.9g}" for number in row] for row in rows])
            continue
        added += [f"prediction{end}", *(f"probability{end}_{name}" for name in classes[k])]
        rows = [
            [classes[k][int(c)], *[f"{p:.6f}" for p in chances]]
            for c, chances in zip(
                columns.values.tolist(), columns.probabilities.tolist(), strict=True
            )
        ]
        if columns.sets is not None:
            added.append(f"prediction_set{end}")
            for row, inside in zip(rows, columns.sets, strict=True):
                row.append(json.dumps([classes[k][c] for c in np.flatnonzero(inside).tolist()]))
        parts.append(rows)
    joined = ([*chain.from_iterable(row)] for row in zip(*parts, strict=True))
    joined = parts[0] if len(parts) == 1 else joined
    return added, dict(zip(objects.lines, joined, strict=True))


def _columns_of_sets(
    objects: Objects, predictions: Sequence[Predictions], labels: LabelSets
) -> tuple[list[str], dict[int, list[str]]]:
    """Return the columns of any number of labels an object; see `added_columns`."""
    names = [str(label) for label in labels.labels]
    added = ["prediction", *(f"prediction_{n}" for n in names if labels.is_table),
             *(f"probability_{n}" for n in names)]  # fmt: skip
    rows = {}
    for line, (there, predicted) in zip(objects.lines, sets_of(labels, predictions), strict=True):
        flags = [str(int(name in there)) for name in names] if labels.is_table else []
        chances = [f"{chance:.6f}" for chance in predicted.values()]
        rows[line] = [json.dumps(there, ensure_ascii=False), *flags, *chances]
    return added, rows


def shown_cell(value: object) -> str:
    """Return the text of an input cell in CSV."""
    if isinstance(value, str):
        return value
    if value is None or value is MISSING:
        return ""
    is_json = isinstance(value, (bool, int, float, list, dict))
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)


class _Lines(list[str]):
    """Rows that a writer of CSV has written."""

    def write(self, line: str) -> None:
        self.append(line)


def as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; text that a spreadsheet program would run as a formula is guarded.

    See :func:`guard_formula`: numbers stay numbers, and a label such as ``-ve`` becomes ``'-ve``.
    ``evaluate`` accepts a guarded label for its class; everything else is read as it is written.
    """
    lines = _Lines()
    end = "\r\n"  # a cell with either of its characters is quoted
    writer = csv.writer(lines, lineterminator=end)
    writer.writerows(
        [cell if cell[:1] not in GUARDED else guard_formula(cell) for cell in map(str, row)]
        for row in rows
    )
    return "".join(f"{line.removesuffix(end)}\n" for line in lines)


def write_table(output: str | Path | None, parts: Iterable[str]) -> None:
    """Write a file completely or not at all; None is stdout, which gets part by part.

    Its parts may be computed while it is written.
    """
    if output is None:
        for text in parts:
            sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)
        return
    path = Path(output)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe: not replaced
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.writelines(parts)
        except OSError as error:
            raise StorageError(path, error) from error
        return
    atomic.write_chunks(path, (text.encode() for text in parts))


def predicted_table(
    blocks: Iterable[Objects], predict: Callable[[Objects], Sequence[Predictions]],
    reason: Callable[[Any], str], classes: Sequence[Sequence[str]], noun: str,
    output: str | Path | None,
    labels: LabelSets | None = None,
) -> Iterator[str]:  # fmt: skip
    """Yield the text of a CSV file with the rows of the input, in order, and their predictions.

    A row that cannot be used keeps its place without a prediction; stderr says which. ``reason`` is
    that against using an object, empty if there is none; ``output`` must not be one of the files
    that are read.

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
            added, rows = added_columns(objects, predictions, classes, labels)
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
        cells = [[*map(shown_cell, row)] for row in objects.table.rows]
        lines = objects.table.lines
    for line, row in zip(lines, cells, strict=True):
        yield [*row, *rows.get(line, ())]


# Predictions of a table in many files, one output for each, by the backends of joblib.
#
# An output is written completely or not at all, and a work list has those that are there with the
# size and time of their input, so the same command continues after an interruption.

RECORD, RESULTS = "predictions.json", "predictions.jsonl"


def predict_parts(
    task: Task, run: str | Path, data: str | Path, output: str | Path, options: Sequence[Any], *,
    device: str, n_jobs: int | None,
) -> None:  # fmt: skip
    """Write the predictions of each file of a table into a folder, as ``NAME.csv``.

    Workers read and write the files themselves, so on several machines the folders are shared.

    Raises:
        DataError: A file cannot be used, or the folder holds predictions of another model.
        ArgumentError: The folder holds other files.
        RunFolderError: Another process writes into the folder.
        StorageError: An output cannot be written.
    """
    folder = Path(output)
    parts = _outputs(table_files(data), folder)
    with locked(folder, RECORD, "predictions", option="output"):
        try:
            work: WorkList[str, list[int]] = WorkList(
                folder, (RECORD, RESULTS), _described(run, options),
                lambda name, state: {"part": name, "state": state},
                lambda line: (line["part"], line["state"]),
            )  # fmt: skip
        except ArgumentError:
            fix = "Choose another folder."
            raise DataError("holds predictions of another model", file=folder, fix=fix) from None
        missing = [
            name
            for name, source in parts.items()
            if work.finished.get(name) != _state(source) or not (folder / name).is_file()
        ]
        try:
            for name, state in completed(
                _predict, missing,
                lambda name: (task, run, parts[name], folder / name, options, device), n_jobs,
                "files",
            ):  # fmt: skip
                work.add(name, state)
        finally:
            atomic.remove_leftovers(folder, say)
    there = f"; {len(parts) - len(missing)} were there" if len(missing) < len(parts) else ""
    say(f"{folder}: predictions of {len(parts)} files{there}")


def _outputs(files: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Return the inputs by the name of their output."""
    if folder.is_file():
        raise DataError("is a file", file=folder, fix="With --jobs, give -o the name of a folder.")
    named: dict[str, Path] = {}
    for path in files:
        name = f"{uncompressed(path).stem}.csv"
        if name in named:
            fix = "Predict them into folders of their own."
            raise DataError(f"has the same name as {named[name]}", file=path, fix=fix)
        if path.resolve() == (folder / name).resolve():
            raise DataError("is the input", file=folder / name, fix="Give -o another folder.")
        named[name] = path
    return named


def _described(run: str | Path, options: Sequence[Any]) -> dict[str, Any]:
    """Return what predictions depend on besides their input."""
    files = (Path(run, name) for name in OF_PREDICTIONS)
    model = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()
             for file in files if file.is_file()}  # fmt: skip
    return {"format": "representer predictions 1", "model": model, "options": repr(options)}


def _state(path: Path) -> list[int]:
    """Return size and time of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _predict(
    task: Task, run: str, source: Path, output: Path, options: Sequence[Any], device: str
) -> list[int]:
    """Predict one file; return its state before it was read."""
    state = _state(source)
    task.function("predict")(run, source, output, *options, device=device)
    return state
