"""Tables that commands write: checks of the output before any work, CSV, and atomic writing."""

from __future__ import annotations

import csv
import json
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from representer.data.tables import MISSING
from representer.data.tables.reading import kind_of
from representer.data.tables.source import COMPRESSIONS
from representer.data.tables.spreadsheet import guard_formula
from representer.errors import DataError, StorageError
from representer.printable import printable
from representer.report.results import Predictions
from representer.storage import atomic
from representer.tasks.estimator_objects import Objects


def check_output(output: Path, data: Path | None) -> None:
    """Refuse an output that could not be written, before any work is done.

    Raises:
        DataError: If the output is a directory, its directory is missing, it is the input, or its
            suffix is that of another format than CSV.
    """
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
    """Refuse to add columns that the input already has.

    Raises:
        DataError: If the input has one of them.
    """
    for name in added:
        if name in columns:
            fix = "Rename it in the input."
            problem = "the input already has this column"
            raise DataError(problem, file=source, column=name, fix=fix)


def added_columns(
    objects: Objects, predictions: Sequence[Predictions], classes: Sequence[Sequence[str]]
) -> tuple[list[str], dict[int, list[str]]]:
    """Return the names of the added columns, and their cells by line."""
    names = objects.targets if len(objects.targets) == len(predictions) else ()
    ends = [f"_{name}" for name in names or range(1, len(predictions) + 1)]
    added: list[str] = []
    parts: list[list[list[str]]] = []
    for k, own in enumerate(predictions):
        end = ends[k] if len(predictions) > 1 else ""
        if own.chances is not None:
            added += [f"prediction{end}", f"probability{end}"]
            pairs = zip(own.values.tolist(), own.chances.tolist(), strict=True)
            parts.append([[classes[k][int(number)], f"{chance:.6f}"] for number, chance in pairs])
            continue
        if own.probabilities is None:
            added += [f"prediction{end}", f"uncertainty{end}"]
            deviations = np.zeros(0) if own.deviations is None else own.deviations
            numbers = [own.values, deviations]
            if own.half_widths is not None:
                added += [f"low{end}", f"high{end}"]
                numbers += [own.values - own.half_widths, own.values + own.half_widths]
            parts.append([[f"{number:.9g}" for number in row] for row in np.stack(numbers, 1)])
            continue
        added += [f"prediction{end}", *(f"probability{end}_{name}" for name in classes[k])]
        rows = [
            [classes[k][int(c)], *(f"{p:.6f}" for p in chances)]
            for c, chances in zip(own.values, own.probabilities, strict=True)
        ]
        if own.sets is not None:
            added.append(f"prediction_set{end}")
            for row, inside in zip(rows, own.sets, strict=True):
                row.append(json.dumps([classes[k][c] for c in np.flatnonzero(inside).tolist()]))
        parts.append(rows)
    joined = ([cell for part in row for cell in part] for row in zip(*parts, strict=True))
    return added, dict(zip(objects.lines, joined, strict=True))


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
    writer.writerows([guard_formula(str(cell)) for cell in row] for row in rows)
    return "".join(f"{line.removesuffix(end)}\n" for line in lines)


def write_table(output: str | Path | None, parts: Iterable[str]) -> None:
    """Write a file completely or not at all; None is stdout, which gets part by part.

    Args:
        output: The file.
        parts: Its text, in consecutive parts, which may be computed while it is written.

    Raises:
        StorageError: If the file cannot be written.
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
