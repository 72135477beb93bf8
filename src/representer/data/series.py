"""Reading of labeled series: ``.ts``, tables with a row for each series or each step, ``.npz``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.checks import is_missing
from representer.data.tables import Grid, read_grid
from representer.data.tables.columns import (
    LABEL_NAMES,
    OTHER_NAMES,
    TEXT_NAMES,
    data_columns,
    hold_numbers,
    label_role,
    name_of,
    number_of,
    plain,
    refuse_columns,
    requested,
    role_of,
    text_of,
)
from representer.data.tables.files import format_of, listing, read_arrays
from representer.data.tables.reading import physical_lines
from representer.data.tables.times import sorted_by_time
from representer.errors import DataError

_OBJECTS = (
    "series", "case", "sample", "window", "recording", "device", "machine", "engine", "trial",
    "session", "patient",
)  # fmt: skip
IDS = {"id", *_OBJECTS, *(f"{name}_id" for name in _OBJECTS)}
_TIME = re.compile(r"(time(stamp)?s?|t|step|steps|date(time)?)(_.*)?")
_LISTS = {"series", "values", "x", "data"}  # columns of JSON objects
_UNKNOWN = {"?", "*"}  # values of .ts files
_PAIR = re.compile(r"\(([^()]*),([^(),]*)\)")  # a time and a value
LONGEST_LINE = 2**30  # a series of a million steps stands on a line

Series = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesFile:
    """Series as they were read."""

    source: Path  # path of the file
    series: Sequence[Series]  # arrays ``(C, T_i)``, NaN where a value is missing
    labels: Sequence[str | None]  # the label of each as text, None if it has none
    lines: Sequence[int]  # the line on which each starts, or its row
    channels: Sequence[str] = ()  # names of the channels, if the file has them
    names: Sequence[str] = ()  # the name of each series, if it has one
    table: Grid | None = None  # the rows of a table with a row for each series
    label_column: str | None = None  # its column of the labels
    notes: Sequence[str] = ()  # remarks for the user


def read_series_file(
    path: str | Path, *, label: str | None = None, series: str | None = None,
    time: str | None = None, channels: Sequence[str] = (), require_labels: bool = True,
) -> SeriesFile:  # fmt: skip
    """Read series with their labels.

    Args:
        path: A ``.ts`` file; an ``.npz`` file with X ``(N, T)`` or ``(N, C, T)``, y and, of padded
            series, lengths; or a table. A table has a row for each series (its label, and a column
            for each step), as the ``.tsv`` files of the UCR archive have, or JSON lists as
            ``series``; or a row for each step (the series, its label, the time, and a column for
            each channel).
        label: Column of the labels; by default that with a common name or, without a header, the
            first one.
        series: Column with the name of the series, where there is a row for each step.
        time: Column of the times, by which the steps of a series are sorted; by default that with
            a common name, where there is a row for each step.
        channels: Names of the channels to read, in this order, where the file has names; by default
            all.
        require_labels: Raise an error for a series without a label.
    """
    path = Path(path)
    suffix = format_of(path)
    if suffix in ("ts", "npz"):
        refuse_columns(path, label=label, series=series, time=time)
        file = _read_ts(path) if suffix == "ts" else _read_npz(path, channels)
    else:
        wanted = requested(label) + requested(series) + requested(time)
        grid = read_grid(path, wanted)
        if not grid.header and {*map(plain, map(text_of, grid.rows[0]))} & (LABEL_NAMES | IDS):
            grid = read_grid(path, wanted, header=True)  # whose other names may be numbers
        file = _of_table(path, grid, label, series, time, channels, needs_label=require_labels)
    if not file.series:
        raise DataError("holds no series", file=path)
    for item, line in zip(file.series, file.lines, strict=True):
        if len(item) != len(file.series[0]):
            problem = f"has {len(item)} channels; the first series has {len(file.series[0])}"
            raise DataError(problem, file=path, line=line, fix="Give all the same channels.")
    missing = [row for row, label in enumerate(file.labels) if not label]
    if require_labels and missing:
        line = None if suffix == "npz" else file.lines[missing[0]]
        is_any = len(missing) < len(file.labels)
        problem = "the series has no label" if is_any else "the series have no labels"
        fix = "Name their column with --label, or add them."
        raise DataError(problem, file=path, line=line, fix=fix)
    return file


def are_series(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Return True if the first rows of a table hold series, by their content and its names.

    Their cells are lists of numbers in a column such as ``series``; or all columns are numbers but
    for labels, with the time of each step and the repeated name of its series; or 8 columns of
    numbers or more have one name, numbered, or numbers as names. No column is called a text or has
    different cells of three words or more.
    """
    names = [plain(name) for name in columns]
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    lists = [cell for name in _LISTS for cell in cells.get(name, ()) if isinstance(cell, list)]
    if TEXT_NAMES & cells.keys():
        return False
    if any(isinstance(cell[0], int | float | list) for cell in lists if cell):
        return True
    times, of_series = {name for name in names if _TIME.fullmatch(name)}, IDS & cells.keys()
    apart = times | of_series | LABEL_NAMES | OTHER_NAMES
    values = [name for name in names if name not in apart and hold_numbers(cells[name])]
    others = cells.keys() - apart - {*values}
    texts = [{text for cell in cells[name] if len((text := text_of(cell)).split()) > 2}
             for name in others]  # fmt: skip
    if not values or any(2 * len(distinct) > len(rows) for distinct in texts):
        return False
    ids = [{*map(text_of, cells[name])} for name in of_series]
    if times and any(len(distinct) < len(rows) for distinct in ids):  # of several steps
        return all(len({*map(text_of, cells[name])}) <= len(ids[0]) for name in others)
    named = [name for name in columns if plain(name) in values]
    stems = {"" if number_of(name) is not None else name.rstrip("0123456789") for name in named}
    return len(named) >= 8 and len(stems) == 1 and len(others) <= 1


def _read_ts(path: Path) -> SeriesFile:
    """Read a file of the UEA and UCR archive: channels separated by colons, and the label."""
    series, labels, lines = list[Series](), list[str | None](), list[int]()
    has_label, is_data = True, False
    for number, line in enumerate(physical_lines(path, longest=LONGEST_LINE), 1):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        if text.startswith("@"):
            word, *rest = text.lower().split()
            if word in ("@classlabel", "@targetlabel"):
                has_label = rest[:1] != ["false"]
            is_data |= word == "@data"
            continue
        if not is_data:
            fix = "A .ts file has lines of @ above @data, and a series on each line below."
            raise DataError("a line above @data begins with neither @ nor #", file=path,
                            line=number, fix=fix)  # fmt: skip
        parts = _PAIR.sub(r"\2", text).split(":")
        labels.append(name_of(parts.pop()) or None if has_label else None)
        cells = [[cell for cell in text.split(",") if cell.strip()] for text in parts]
        channels = [[_number(cell, path, number) for cell in x] for x in cells]
        size = max(map(len, channels), default=0)
        if not size:
            raise DataError("the series has no value", file=path, line=number)
        item = np.full((len(channels), size), np.nan)  # channels may be of unequal lengths
        for row, values in zip(item, channels, strict=True):
            row[: len(values)] = values
        series.append(item)
        lines.append(number)
    return SeriesFile(path, series, labels, lines)


def _number(cell: Any, path: Path, line: int, column: str | None = None) -> float:
    """Return a value, NaN where it is missing."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        text = text_of(cell).strip()
    if not text or text in _UNKNOWN or is_missing(text):
        return np.nan
    if (number := number_of(text)) is not None:
        return number
    fix = (
        "Write a number, or nothing where a value is missing; --label names the column of the "
        "labels, --series that of the names of series."
    )
    problem = f"{text!r:.60} is not a number"
    raise DataError(problem, file=path, line=line, column=column, fix=fix)


def _chosen(names: Sequence[str], channels: Sequence[str], path: Path) -> list[int]:
    """Return the places of the channels to read among the names of those of a file."""
    is_plain = len(names) == len(channels) == 1 or len({*channels}) < len(channels)
    if not channels or not names or is_plain:
        return [*range(len(names))]
    if absent := [name for name in channels if name not in names]:
        problem = f"there is no channel {listing(absent)}; the channels are {listing(names)}"
        raise DataError(problem, file=path, fix="Name the channels as in training.")
    return [list(names).index(name) for name in channels]


def _read_npz(path: Path, wanted: Sequence[str]) -> SeriesFile:
    arrays, others = read_arrays(path, ("X", "y", "lengths", "channels"))
    X = arrays.get("X")
    if X is None or X.ndim not in (2, 3) or X.dtype.kind not in "fiub":
        problem = "there is no array X" if X is None else f"X is {X.dtype} of shape {X.shape}"
        fix = f"Save X (N, T) or (N, C, T) with numpy.savez; other arrays: {listing(others)}."
        raise DataError(problem, file=path, fix=fix)
    X = X[:, None] if X.ndim == 2 else X
    lengths = arrays.get("lengths", np.full(len(X), X.shape[2]))
    y = arrays.get("y")
    for name, array in (("y", y), ("lengths", lengths)):
        if array is not None and array.shape != (len(X),):
            problem = f"{name} has the shape {array.shape}; expected ({len(X)},)"
            raise DataError(problem, file=path, fix="Give each series one entry.")
    if lengths.dtype.kind not in "iu" or not ((lengths > 0) & (lengths <= X.shape[2])).all():
        problem = f"lengths are not integers from 1 to {X.shape[2]}"
        raise DataError(problem, file=path, fix="Leave lengths out, or correct them.")
    labels = [None] * len(X) if y is None else [name_of(str(name)) for name in y.tolist()]
    channels = [str(name) for name in arrays["channels"]] if "channels" in arrays else ()
    if len(channels) not in (0, X.shape[1]):
        raise DataError(f"{len(channels)} names of {X.shape[1]} channels", file=path)
    if channels:
        chosen = _chosen(channels, wanted, path)
        X, channels = X[:, chosen], [channels[k] for k in chosen]
    series = [x[:, :n].astype(np.float64) for x, n in zip(X, lengths.tolist(), strict=True)]
    return SeriesFile(path, series, labels, range(1, len(X) + 1), channels)


def _of_table(
    path: Path, grid: Grid, label: str | None, series: str | None, time: str | None,
    wanted: Sequence[str], *, needs_label: bool,
) -> SeriesFile:  # fmt: skip
    columns, source = data_columns(grid), str(path)
    free = [i for i in columns if grid.columns[i] not in wanted]  # a channel may be called y
    role = partial(role_of, grid, free, source)
    labels = label_role(grid, free, source, label, is_needed=needs_label)
    lists = role(None, "series", _LISTS)
    if lists is not None and any(isinstance(row[lists], list) for row in grid.rows):
        return _of_lists(path, grid, lists, labels)
    ids = role(series, "series", IDS)
    if ids is not None and not (series and wanted):
        names = [text_of(row[ids]) for row in grid.rows]
        if len(set(names)) == len(names):  # a row for each series, which has a name
            columns, ids = [i for i in columns if i != ids], None
    if ids is not None:
        return _of_steps(path, grid, ids, labels, role(time, "time", set()), wanted)
    if labels is None and not grid.header:
        labels = columns[0]  # as in the UCR archive
    steps = [i for i in columns if i != labels]
    rows = zip(grid.lines, grid.rows, strict=True)
    values = [
        np.array([[_number(row[i], path, line, grid.columns[i]) for i in steps]])
        for line, row in rows
    ]
    return SeriesFile(
        path, values, _labels(grid, labels), grid.lines, table=grid,
        label_column=None if labels is None else grid.columns[labels], notes=grid.notes,
    )  # fmt: skip


def _labels(grid: Grid, column: int | None) -> list[str | None]:
    if column is None:
        return [None] * len(grid.rows)
    return [name_of(row[column]) or None for row in grid.rows]


def _of_lists(path: Path, grid: Grid, column: int, labels: int | None) -> SeriesFile:
    series = []
    for line, row in zip(grid.lines, grid.rows, strict=True):
        try:
            item = np.asarray(row[column], dtype=np.float64)  # null becomes NaN
        except (TypeError, ValueError):
            item = np.empty(0)
        if item.ndim not in (1, 2) or not item.size:
            problem = "the series is no list of numbers, nor of such lists of one length"
            fix = 'Write {"series": [1, 2, null], "label": "a"}, or a list for each channel.'
            raise DataError(problem, file=path, line=line, fix=fix)
        series.append(np.atleast_2d(item))
    return SeriesFile(path, series, _labels(grid, labels), grid.lines, notes=grid.notes)


def _of_steps(
    path: Path, grid: Grid, ids: int, labels: int | None, time: int | None, wanted: Sequence[str]
) -> SeriesFile:
    """Read a table with a row for each step; the rows of a series need not stand together."""
    rest = [i for i in data_columns(grid) if i not in (ids, labels)]
    if time is None:
        times = (i for i in rest if _TIME.fullmatch(plain(grid.columns[i])))
        time = next((i for i in times if grid.columns[i] not in wanted), None)
    channels = [i for i in rest if i != time]
    if not channels:
        raise DataError("the table has no column of values", file=path)
    names_of = [grid.columns[i] for i in channels]
    channels = [channels[k] for k in _chosen(names_of, wanted, path)]
    rows: dict[str, list[int]] = {}
    for k, row in enumerate(grid.rows):
        if not (name := name_of(row[ids])):
            problem, column = "the cell is empty; expected the series", grid.columns[ids]
            raise DataError(problem, file=path, line=grid.lines[k], column=column)
        rows.setdefault(name, []).append(k)
    of_rows, series, result = _labels(grid, labels), [], list[str | None]()
    for name, rows_of in rows.items():
        if len(classes := {of_rows[k] for k in rows_of}) > 1:
            named = listing(sorted(str(x) for x in classes))
            problem = f"the series {name!r:.60} has several labels: {named}"
            fix, line = "Give each series one label.", grid.lines[rows_of[0]]
            raise DataError(problem, file=path, line=line, fix=fix)
        result += classes
        if time is not None:
            rows_of[:] = sorted_by_time(rows_of, grid, time, str(path))
        table = [[_number(grid.rows[k][i], path, grid.lines[k], grid.columns[i]) for k in rows_of]
                 for i in channels]  # fmt: skip
        series.append(np.array(table))
    names, lines = [*rows], [grid.lines[ks[0]] for ks in rows.values()]
    table = Grid([grid.columns[ids]], [[name] for name in names], lines, [], True, False, [])
    rows_of = [grid.columns[i] for i in channels]
    return SeriesFile(
        path, series, result, lines, rows_of, names, table,
        None if labels is None else grid.columns[labels], grid.notes,
    )  # fmt: skip
