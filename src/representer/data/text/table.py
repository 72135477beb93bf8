"""Labeled documents in CSV, TSV, JSON Lines or Parquet files, or workbooks."""

from __future__ import annotations

import ast
import json
import math
import os
import platform
import random
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from representer.data.tables.columns import (
    MISSING,
    Dropped,
    Grid,
    LeftOut,
    group_names,
    guess_label,
    guess_text,
    hold_numbers,
    ignored_split,
    name_of,
    requested,
    resolve,
)
from representer.data.tables.files import BlockSize, listing
from representer.data.tables.reading import physical_lines, read_blocks, read_grid, table_files
from representer.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Table:
    """Documents and their labels, in the order of the file."""

    texts: list[str]  # one document per row
    # one label per row, the cells of several columns, or the tuple of any number of labels
    labels: list[Any] | None
    lines: list[int]  # line of the file on which each row starts, from 1; of Parquet, its row
    columns: list[str]  # all columns of the file
    text_column: str  # several are joined by a comma
    label_column: str | None
    dropped: list[Dropped]  # rows, with reasons
    source: str  # of the documents, usually the path of the file
    header: bool = True  # the first row names the columns
    notes: list[str] = field(default_factory=list)  # a sentence about each inferred property
    groups: list[str] = field(default_factory=list)  # what each row belongs to, if a column says so
    targets: tuple[str, ...] = ()  # names of several columns of labels
    has_label_sets: bool = False  # a document has any number of labels
    separator: str | None = None  # what stands between the labels in a cell

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.texts)


def read_table(
    path: str | PathLike[str], text: str | None = None, label: str | None = None, *,
    require_label: bool = True, header: bool | None = None, delimiter: str | None = None,
    quotes: bool | None = None, encoding: str = "utf-8",
) -> Table:  # fmt: skip
    """Read documents and labels from a file of any format that :func:`read_grid` reads.

    Columns that are not given are inferred, with a note in ``Table.notes``; ambiguity is an error.

    Rows without text, and rows without a required label, are dropped and listed in
    ``Table.dropped``. Whitespace around labels is removed; texts are not changed.

    Args:
        path: The file.
        text: The column of the text; several, separated by commas, are joined by a space. In CSV
            and TSV files a column may also be given by its number, starting at 1.
        label: The column of the label.
        require_label: Require a label for every document. If False, a label column is used if it is
            given or has a common name, and a row without a usable label has the label ``""``.
        header: As in :func:`read_grid`.
        delimiter: As in :func:`read_grid`.
        quotes: As in :func:`read_grid`.
        encoding: Encoding of the file.

    Returns:
        The table.

    Raises:
        DataError: If a column is missing or ambiguous, or no row can be used; otherwise as in
            :func:`read_grid`.
    """
    layout: Any = {"header": header, "delimiter": delimiter, "quotes": quotes, "encoding": encoding}
    grid = read_grid(path, requested(text) + requested(label), **layout)
    return assemble(grid, str(Path(path)), text, label, require_label=require_label)


def assemble(
    grid: Grid, source: str, text: str | None, label: str | None, *, require_label: bool,
    groups: str | None = None, multilabel: bool = False, separator: str | None = None,
) -> Table:  # fmt: skip
    """Select the columns of the text and the label, and keep the rows that have both.

    Several columns of 0 and 1 hold labels of which a document has any number. What stands between
    the labels in a cell is detected unless it is given.
    """
    chosen: Any = {"require_label": require_label, "groups": groups}
    chosen |= {"multilabel": multilabel, "separator": separator}
    table = Selection.of(grid, source, text, label, **chosen).table(grid, source)
    if not table.texts:
        dropped = LeftOut(table.dropped)
        raise _nothing_usable(dropped, source, table.text_column)
    return table


def _nothing_usable(dropped: LeftOut, source: str, column: str) -> DataError:
    why = " and ".join(sorted(dropped.counts))
    problem = f"none of the {dropped.total} rows can be used ({why})"
    return DataError(problem, file=source, column=column, fix="Are these the right columns?")


@dataclass(frozen=True)
class Selection:
    """The columns of the text and the label, selected from the first rows of a table."""

    columns: list[str]  # all columns
    texts: list[int]  # positions of the columns of the text
    labels: list[int]  # positions of the columns of the label; none without one
    notes: list[str]  # one sentence for the user about each inferred property
    require_label: bool  # rows without a label are dropped
    groups: str | None = None  # the columns of what rows belong to; None for none
    has_label_sets: bool = False  # a document has any number of labels
    separator: str | None = None  # what stands between labels in a cell; None if nothing does

    @classmethod
    def of(
        cls, grid: Grid, source: str, text: str | None, label: str | None, *, require_label: bool,
        groups: str | None = None, multilabel: bool = False, separator: str | None = None,
    ) -> Selection:  # fmt: skip
        """Select the columns; see `assemble`."""
        texts = resolve(grid, text, "text", source) if text else []
        labels = resolve(grid, label, "label", source) if label else []
        notes = list(grid.notes)
        if len({*labels}) < len(labels):
            raise ArgumentError("label", label, "each column once")
        if separator is not None and (not multilabel or len(labels) > 1):
            expected = "nothing without --multilabel and one column of labels"
            raise ArgumentError("separator", separator, expected)
        if not texts:
            chosen = labels[0] if labels else guess_label(grid, [], source, required=False)
            texts = [guess_text(grid, chosen, source)]
            notes.append(f"The text is taken from column {grid.columns[texts[0]]!r}.")
        if both := {*texts} & {*labels}:
            name = grid.columns[min(both)]
            raise ArgumentError("label", name, "a column other than the text")
        notes += ignored_split(grid)
        taken = [*texts, *(resolve(grid, groups, "groups", source) if groups else [])]
        if not labels:
            col = guess_label(grid, taken, source, required=require_label)
            labels = [] if col is None else [col]
            notes += [f"The label is taken from column {grid.columns[col]!r}." for col in labels]
        if len(labels) > 1 and not multilabel and grid.rows:
            multilabel = all(
                str(row[i]).strip().lower() in _FLAGS for row in grid.rows for i in labels
            )
            if multilabel:
                names = listing([grid.columns[i] for i in labels])
                notes.append(f"Columns {names} have 0 and 1 alone: each is a label of the texts.")
        elif multilabel and len(labels) == 1 and separator is None:
            separator = _separator_in([row[labels[0]] for row in grid.rows])
            notes += [f"Labels are separated by {separator!r}."] if separator else []
        elif require_label and len(labels) == 1:
            notes += _joined_note([row[labels[0]] for row in grid.rows])
        of_labels = multilabel, separator
        return cls(grid.columns, texts, labels, notes, require_label, groups, *of_labels)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of several columns of labels."""
        return tuple(self.columns[i] for i in self.labels) if len(self.labels) > 1 else ()

    def table(self, grid: Grid, source: str) -> Table:
        """Return the rows of a block that have a text and, if it is required, a label."""
        kept: list[tuple[str, Any, int]] = []
        dropped = list(grid.dropped)
        for row, line in zip(grid.rows, grid.lines, strict=True):
            parts = [_cell(row[i], source, line, grid.columns[i], is_text=True) for i in self.texts]
            document = " ".join(x for x in parts if x.strip())
            name = self._label(row, source, line)
            is_unlabeled = not self.has_label_sets and not (any(name) if self.targets else name)
            if not document:
                dropped.append(Dropped(line, "empty text"))
            elif self.require_label and is_unlabeled:
                dropped.append(Dropped(line, "empty label"))
            else:
                kept.append((document, name, line))
        dropped.sort(key=lambda row: row.line)
        taken = [*self.texts, *self.labels]
        return Table(
            groups=group_names(grid, self.groups, source, [line for _, _, line in kept], taken),
            texts=[document for document, _, _ in kept],
            labels=[name for _, name, _ in kept] if self.labels else None,
            lines=[line for _, _, line in kept], columns=grid.columns,
            text_column=",".join(grid.columns[i] for i in self.texts),
            label_column=",".join(grid.columns[i] for i in self.labels) or None, dropped=dropped,
            source=source, header=grid.header, notes=self.notes, targets=self.targets,
            has_label_sets=self.has_label_sets, separator=self.separator,
        )  # fmt: skip

    def _label(self, row: Sequence[Any], source: str, line: int) -> Any:
        """Return the label of a row, its cells in several columns, or the tuple of its labels."""
        cells = [(row[i], source, line, self.columns[i]) for i in self.labels]
        try:
            if not self.has_label_sets:
                names = tuple(name_of(_cell(*cell)) for cell in cells)
                return names if self.targets else "".join(names)
            if not self.targets:
                return tuple(label for cell in cells for label in self._split(*cell))
            return tuple(cell[-1] for cell in cells if _flag(*cell))
        except DataError:
            if self.require_label:
                raise
            return ""  # as a row without a label

    def _split(self, cell: Any, source: str, line: int, column: str) -> list[str]:
        """Return the labels in a cell: a list, a list as text, or names between separators."""
        parts = _listed(cell)
        if parts is None and isinstance(cell, str) and len(cell) > _LONGEST and cell[:1] == "[":
            problem = f"a list of {len(cell):,} characters; expected at most {_LONGEST:,}"
            fix = "Write it as JSON, which may be longer."
            raise DataError(problem, file=source, line=line, column=column, fix=fix)
        if parts is None:
            text = _cell(cell, source, line, column)
            parts = text.split(self.separator) if self.separator else [text]
        names = [name_of(_cell(name, source, line, column)) for name in parts]
        return [*dict.fromkeys(filter(None, names))]


def read_tables(
    path: str | PathLike[str], text: str | None, label: str | None, *, require_label: bool,
    size: BlockSize, groups: str | None = None, multilabel: bool = False,
    separator: str | None = None, **layout: Any,
) -> Iterator[tuple[Grid, Table]]:  # fmt: skip
    """Yield the blocks of the files of a table, in order, and their documents and labels.

    Columns are selected from the first block of all; every file has the same columns.
    """
    selection: Selection | None = None
    dropped, count, column = LeftOut(), 0, ""
    for file in table_files(path):
        wanted = requested(text) + requested(label) + requested(groups)
        for grid in read_blocks(file, wanted, **layout, size=size):
            if selection is None:
                options: Any = {"require_label": require_label, "groups": groups}
                options |= {"multilabel": multilabel, "separator": separator}
                selection = Selection.of(grid, str(file), text, label, **options)
                size = size._replace(head=size.rest)
                layout["header"] = grid.header if grid.numbered else layout.get("header")
            elif grid.columns != selection.columns:
                names = listing(selection.columns)
                problem = f"the columns are {listing(grid.columns)}; the first file has {names}"
                raise DataError(problem, file=file, fix="Give all files the same columns.")
            else:
                selection = replace(selection, notes=[])
            table = selection.table(grid, str(file))
            dropped.add(table.dropped)
            count, column = count + len(table), table.text_column
            yield grid, table
    if not count:
        raise _nothing_usable(dropped, str(Path(path)), column)


_MARKS = "|", ";", ","  # that may stand between labels
_LONGEST = (
    1 << 16
)  # characters of a list that is not JSON: Python's parser takes 300 bytes for each
_FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True,
          "no": False, "yes": True}  # fmt: skip


def _flag(cell: object, source: str, line: int, column: str) -> bool:
    """Return an indicator as a truth value."""
    if (flag := _FLAGS.get(str(cell).strip().lower())) is None:
        problem = f"is {str(cell)!r:.40}; expected 0 or 1"
        fix = "Each column of labels says by 0 or 1 whether a text has the label."
        raise DataError(problem, file=source, line=line, column=column, fix=fix)
    return flag


def _listed(cell: Any) -> list[Any] | None:
    """Return the labels of a list, as JSON and Python write it; None for another cell."""
    if isinstance(cell, str) and cell.strip()[:1] == "[":
        for parse in (json.loads, ast.literal_eval)[: 1 + (len(cell) <= _LONGEST)]:
            try:
                cell = parse(cell.strip())
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    return cell if isinstance(cell, list) else None


def _separator_in(cells: Sequence[Any]) -> str | None:
    """Return what stands between the labels of some cells, None if nothing does."""
    texts = [cell for cell in cells if isinstance(cell, str) and _listed(cell) is None]
    return next((mark for mark in _MARKS if any(mark in text for text in texts)), None)


def _joined_note(cells: Sequence[Any]) -> list[str]:
    """Return a note if a cell joins labels that other cells have alone."""
    classes = dict.fromkeys(cell.strip() for cell in cells if isinstance(cell, str))
    for name in classes:
        for mark in _MARKS:
            parts = [*map(str.strip, name.split(mark))]
            if len(parts) > 1 and {*parts} <= classes.keys() and not hold_numbers(parts):  # as 1,5
                return [f"The class {name!r:.60} joins others; --multilabel predicts each label."]
    return []


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


# Reading of text files with a label, a space and a document on every line.


def read_labeled_lines(
    path: str | PathLike[str], labels: Sequence[str] | None = None, *, encoding: str = "utf-8"
) -> Table:
    """Read documents from lines such as ``4 a stirring , funny film``.

    The label ends at the first space, and the document follows; surrounding whitespace is removed.
    Empty lines and labels without a document are skipped and listed in ``Table.dropped``.

    Args:
        path: The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
        labels: The allowed labels; any by default.
        encoding: Encoding of the file.

    Raises:
        ArgumentError: If Python has no such encoding.
        DataError: If the file is invalid, a label is not allowed, or no document is left; with the
            file and the line.
    """
    path = Path(path)
    table = Table(
        texts=[], labels=[], lines=[], columns=["label", "text"], text_column="text",
        label_column="label", dropped=[], source=str(path), header=False,
    )  # fmt: skip
    assert table.labels is not None
    for number, line in enumerate(physical_lines(path, encoding), 1):
        label, _, text = line.strip().partition(" ")
        if label and labels is not None and label not in labels:
            raise DataError(
                f"starts with {listing([label])} instead of one of the labels {listing(labels)}",
                file=path, line=number, fix="Every line must be a label, a space and a text.",
            )  # fmt: skip
        if not text.strip():
            table.dropped.append(Dropped(number, "empty text" if label else "empty line"))
            continue
        table.texts.append(text.strip())
        table.labels.append(label)
        table.lines.append(number)
    if not table.texts:
        fix = "Every line must be a label, a space and a text."
        raise DataError("has no line with a label and a text", file=path, fix=fix)
    return table


# Lines of Python's standard library, half of them with two swapped tokens.

ORIGINAL, SWAPPED = "original", "swapped"

# Tests, vendored and generated code, and packages that some systems do not install.
_SKIPPED = {
    "test", "tests", "idle_test", "site-packages", "dist-packages", "encodings", "ensurepip",
    "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtle.py", "turtledemo", "__pycache__",
}  # fmt: skip
_TOKEN = re.compile(
    r"""[A-Za-z_]\w* | \d[\w.]* | '[^']*' | "[^"]*" | \*\*=? | //=? | -> | [-+*/%=<>!:&|]= | \S""",
    re.VERBOSE,
)
_LITERAL = '"…"'
_BLOCKS = "body", "handlers", "orelse", "finalbody", "cases"


def code_lines(
    seed: int = 0, *, count: int = 20_000, min_tokens: int = 6, max_tokens: int = 25
) -> Table:
    """Return lines of code as space-separated tokens, labeled ``original`` or ``swapped``.

    A line is a single-line statement. In a random half of the lines, two different tokens are
    swapped, so the label depends only on the order of the tokens. Duplicate lines are dropped, so
    every line belongs to one class. The contents of strings are removed.

    For a given version of Python, the result depends only on the arguments.

    Args:
        seed: Selects the lines, the swapped half and the swapped tokens.
        count: Number of lines.
        min_tokens: Minimum number of tokens per line.
        max_tokens: Maximum number of tokens per line.

    Returns:
        The table; its lines are those of the source files.

    Raises:
        ArgumentError: If ``count`` is below 2, or the lengths allow no line.
        DataError: If this Python was installed without the sources of its library.
    """
    if count < 2:
        raise ArgumentError("count", count, "2 or more")
    if not 2 <= min_tokens <= max_tokens:
        raise ArgumentError("min_tokens", min_tokens, f"2 to max_tokens, {max_tokens}")
    root = Path(sysconfig.get_paths()["stdlib"])
    rng = random.Random(f"code_lines/{seed}")
    files = [root.joinpath(*parts) for parts in sorted(_sources(root))]
    rng.shuffle(files)
    rows: dict[str, int] = {}
    for path in files:
        if len(rows) >= count:
            break
        for tokens, line in _lines(path):
            if min_tokens <= len(tokens) <= max_tokens and len(set(tokens)) > 1:
                rows.setdefault(" ".join(tokens), line)
    if len(rows) < count:
        raise DataError(
            f"only {len(rows)} of {count} lines of code in the standard library",
            file=root,
            fix="Use a Python that was installed with its sources, or your own data.",
        )
    chosen = list(rows.items())[:count]
    rng.shuffle(chosen)
    texts, labels = [], []
    for position, (text, _) in enumerate(chosen):
        is_swapped = position % 2 == 1
        texts.append(_swapped(text.split(), rng) if is_swapped else text)
        labels.append(SWAPPED if is_swapped else ORIGINAL)
    source = f"lines of the Python {platform.python_version()} standard library"
    lines = [line for _, line in chosen]
    return Table(texts, labels, lines, ["text", "label"], "text", "label", [], source)


def _sources(root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the path of each file that is used, below the root and in parts."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        above = Path(folder).relative_to(root).parts
        for name in files:
            is_used = name not in _SKIPPED and not name.startswith("_sysconfigdata")
            if name.endswith(".py") and is_used:
                yield *above, name


def _lines(path: Path) -> Iterator[tuple[list[str], int]]:
    """Yield the tokens and the line number of each single-line statement."""
    try:
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings(action="ignore"):  # about invalid escapes in old modules
            tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError):
        return  # skip files with syntax errors
    texts = source.split("\n")
    for node in _statements(tree):
        if not isinstance(node, ast.stmt) or node.lineno != node.end_lineno:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        text = texts[node.lineno - 1]
        if "\\" in text or "#" in text or not text.isascii() or ";" in text:
            continue
        tokens = [_LITERAL if t[0] in "'\"" else t for t in _TOKEN.findall(text)]
        yield tokens, node.lineno


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield statements, and the parts that contain some, in the order of ``ast.walk``."""
    queue = deque([tree])
    while queue:
        node = queue.popleft()
        for name in _of_type(type(node)):
            queue.extend(getattr(node, name))
        yield node


@cache
def _of_type(node: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a type of nodes that have statements; most types have none."""
    return tuple(name for name in _BLOCKS if name in node._fields)


def _swapped(tokens: list[str], rng: random.Random) -> str:
    """Return a line with two different tokens swapped."""
    i, j = 0, 0
    while tokens[i] == tokens[j]:
        i, j = rng.sample(range(len(tokens)), 2)
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return " ".join(tokens)
