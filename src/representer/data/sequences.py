"""Reading of labeled sequences: FASTA, FASTQ, GenBank, and tables with a row for each or event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from representer.data.series import IDS
from representer.data.tables import Grid, read_grid
from representer.data.tables.columns import (
    LABEL_NAMES,
    TEXT_NAMES,
    ambiguous,
    data_columns,
    hold_numbers,
    is_other,
    label_role,
    likely_labels,
    name_of,
    plain,
    refuse_columns,
    requested,
    role_of,
    text_of,
)
from representer.data.tables.files import format_of, listing
from representer.data.tables.reading import physical_lines
from representer.data.tables.times import sorted_by_time
from representer.errors import DataError

_OF_LETTERS = {"sequence", "sequences", "seq", "dna", "rna", "protein", "peptide", "peptides"}
_EVENTS = {"events", "tokens", "event", "token"}
_NAMES = _OF_LETTERS | _EVENTS
_ANSWERS = {"yes", "no", "true", "false", "y", "n", ""}  # whether there was an event
_BASES, _AMINO_ACIDS = {*"ACGTUNacgtun"}, {*"ACDEFGHIKLMNPQRSTVWY"}
_CODES = _BASES | _AMINO_ACIDS | {*"BXZ*-"}
_ORDER = re.compile(r"(time(stamp)?s?|t|step|order|position|rank|date(time)?)(_.*)?")
_SEPARATORS = re.compile(r"[\s,;]+")
_PAIR = re.compile(r"""[/\[]?(\w+)=("[^"]*"|[^\s\]]+)\]?""")  # key=value of a header
_NOT_LETTERS = re.compile(r"[\d\s]+")  # positions and blanks between the letters of a sequence

ROWS = 20  # by which a column is recognized

Tokens = str | list[Any]


@dataclass(frozen=True)
class SequenceFile:
    """Sequences as they were read."""

    source: Path  # path of the file
    sequences: Sequence[Tokens]  # strings of letters, or lists of tokens
    labels: Sequence[str | None]  # the label of each as text, None if it has none
    lines: Sequence[int]  # the line on which each starts, or its row
    names: Sequence[str] = ()  # the name of each sequence, if it has one
    table: Grid | None = None  # the rows of a table with a row for each sequence
    column: str | None = None  # its column of the sequences
    label_column: str | None = None  # its column of the labels
    notes: Sequence[str] = ()  # remarks for the user


class _Record(NamedTuple):
    header: str
    letters: str
    line: int


def read_sequence_file(
    path: str | Path, *, label: str | None = None, sequence: str | None = None,
    id: str | None = None, order: str | None = None, require_labels: bool = True,
) -> SequenceFile:  # fmt: skip
    """Read sequences with their labels.

    Args:
        path: A FASTA, FASTQ or GenBank file, or a table. In the header of a record, the label is
            ``label=x`` (or ``class=x``; in GenBank files, a qualifier ``/label="x"``), or else its
            second and last word, or what follows its last ``|``. A table has a row for each
            sequence, whose cell is a string of letters, or tokens separated by blanks, commas or
            semicolons, or a list in JSON; or a row for each token, with a column that says to
            which sequence it belongs.
        label: Column of the labels, or the key in headers; by default one with a common name;
            it may be missing if no labels are required.
        sequence: Column of the sequences, or of the tokens.
        id: Column with the name of the sequence, where there is a row for each token; by default
            one with a common name whose names repeat.
        order: Column by which the tokens of a sequence are sorted; by default one of times, or
            that of the rows.
        require_labels: Raise an error for a sequence without a label.
    """
    path = Path(path)
    read = _FORMATS.get(format_of(path) or "")
    if read is not None:
        refuse_columns(path, sequence=sequence, id=id, order=order)
        records = [*read(path)]
        labels = [_label_of(entry.header, label) for entry in records]
        if not all(labels):  # the words of headers are no labels unless all have them
            labels = [_label_of(entry.header, label, is_keyed=True) for entry in records]
        names = [re.split(r"[\s|]", entry.header)[0] for entry in records]
        lines, letters = [entry.line for entry in records], [entry.letters for entry in records]
        table = Grid(["name"], [[name] for name in names], lines, [], True, False, [])
        result = SequenceFile(path, letters, labels, lines, names, table)
    else:
        wanted = [name for item in (label, sequence, id, order) for name in requested(item)]
        grid = read_grid(path, wanted)
        if not grid.header and {*map(plain, map(text_of, grid.rows[0]))} & (LABEL_NAMES | _NAMES):
            grid = read_grid(path, wanted, header=True)
        result = _of_table(path, grid, label, sequence, id, order, needs_label=require_labels)
    if not result.sequences:
        raise DataError("holds no sequence", file=path)
    missing = [row for row, item in enumerate(result.labels) if not item]
    if require_labels and missing:
        is_any = len(missing) < len(result.labels)
        problem = "the sequence has no label" if is_any else "the sequences have no labels"
        fix = "Name their column, or the key in headers, with --label, or add them."
        raise DataError(problem, file=path, line=result.lines[missing[0]], fix=fix)
    return result


def are_sequences(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Return True if the first rows of a table hold sequences, by their content and its names.

    One column is of letters, beside no column that is called a text unless its own name says so; or
    one that is called ``event`` or the like has lists or names, where no cell is a text of three
    words and no column is called a text.
    """
    cells = dict(zip(map(plain, columns), zip(*rows, strict=True), strict=True))
    lists = [cell for name in _NAMES for cell in cells.get(name, ()) if isinstance(cell, list)]
    letters = {name for name, column in cells.items() if is_of_letters(column, name)}
    has_texts = bool(TEXT_NAMES & cells.keys() - letters)
    if _OF_LETTERS & letters or ((lists or letters) and not has_texts):
        return True
    words = [text_of(cell).strip() for name in _EVENTS & cells.keys() for cell in cells[name]]
    has_texts |= any(" " in text for text in words) or any(
        len(text_of(cell).split()) > 2 for row in rows for cell in row if not isinstance(cell, list)
    )
    are_names = any(words) and not hold_numbers(words) and not {*map(str.lower, words)} <= _ANSWERS
    return are_names and not has_texts


def is_of_letters(cells: Iterable[object], name: str = "") -> bool:
    """Return True if the cells of a column are letters of DNA, RNA, proteins or peptides.

    All are codes of an alphabet, in capitals, or nucleotides in either case. The median of their
    lengths is at least 3 in a column that is called ``peptide`` or the like; elsewhere it is 30, or
    8 for nucleotides, and for 15 amino acids or more without other letters: words in capitals, if
    there are many, have an O, a U or a B as well.
    """
    words = [text for cell in cells if (text := text_of(cell).strip())]
    letters = {*"".join(words)}
    if not words or not letters <= _CODES:
        return False
    acids = letters - {*"X*-"}
    is_plain = letters <= _BASES or (acids <= _AMINO_ACIDS and len(acids) >= 15)
    least = 3 if plain(name) in _OF_LETTERS else 8 if is_plain else 30
    return float(np.median([len(word) for word in words])) >= least


def _label_of(header: str, key: str | None, *, is_keyed: bool = False) -> str | None:
    """Return the label in the header of a record."""
    keys = {key.lower()} if key else LABEL_NAMES
    for name, value in _PAIR.findall(header):
        if name.lower() in keys:
            return name_of(value.strip('"')) or None
    if key or is_keyed:
        return None
    words = header.split()
    if len(words) == 2:
        return name_of(words[1])
    name, mark, last = header.rpartition("|")
    return name_of(last) or None if mark and len(words) == 1 else None


def _read_fasta(path: Path) -> Iterator[_Record]:
    header, start, parts = None, 0, list[str]()
    for number, line in enumerate(physical_lines(path), 1):
        text = line.strip()
        if text.startswith(">"):
            if header is not None:
                yield _Record(header, "".join(parts), start)
            header, start, parts = text[1:].strip(), number, []
        elif text and not text.startswith(";"):
            if header is None:
                fix = "A record of FASTA starts with a line such as >name label=x."
                raise DataError("a line before the first > is no header", file=path, line=number,
                                fix=fix)  # fmt: skip
            parts.append(_NOT_LETTERS.sub("", text))
    if header is not None:
        yield _Record(header, "".join(parts), start)


def _read_fastq(path: Path) -> Iterator[_Record]:
    """Read records of a header, letters on one or more lines, a plus and as many qualities."""
    lines = enumerate(physical_lines(path), 1)
    for number, line in lines:
        if not (text := line.strip()):
            continue
        if not text.startswith("@"):
            fix = "A record of FASTQ is a line @name, its letters, a line + and its qualities."
            raise DataError("expected a line that starts with @", file=path, line=number, fix=fix)
        parts, rest = list[str](), 0
        for _, more in lines:
            if more.startswith("+"):
                break
            parts.append(more.strip())
        letters = "".join(parts)
        while rest < len(letters):
            if (following := next(lines, None)) is None:
                problem = f"the record ends after {rest} of {len(letters)} qualities"
                raise DataError(problem, file=path, line=number)
            rest += len(following[1].strip("\r\n"))
        yield _Record(text[1:], letters, number)


def _read_genbank(path: Path) -> Iterator[_Record]:
    """Read the letters below ORIGIN of each record; its qualifiers are read as its header."""
    header, start, parts, is_origin = list[str](), 0, list[str](), False
    for number, line in enumerate(physical_lines(path), 1):
        text = line.strip()
        if text.startswith("LOCUS"):
            header, start, parts, is_origin = text.split()[1:2], number, [], False
        elif text == "//":
            yield _Record(" ".join(header), "".join(parts), start)
            is_origin = False
        elif text.startswith("ORIGIN"):
            is_origin = True
        elif is_origin:
            parts.append(_NOT_LETTERS.sub("", text))
        elif _PAIR.match(text):
            header.append(text)


_FORMATS = {"fasta": _read_fasta, "fastq": _read_fastq, "genbank": _read_genbank}


def _of_table(
    path: Path, grid: Grid, label: str | None, sequence: str | None, ids: str | None,
    order: str | None, *, needs_label: bool,
) -> SequenceFile:  # fmt: skip
    columns, source = data_columns(grid), str(path)
    role = partial(role_of, grid, columns, source)

    labels = label_role(grid, columns, source, label, is_needed=needs_label)
    of_id = role(ids, "id", IDS)
    names = [] if of_id is None else [name_of(row[of_id]) for row in grid.rows]
    cells = role(sequence, "sequence", _NAMES)
    if cells is None:
        free = [index for index in columns if index not in (labels, of_id)]
        letters = [k for k in free if is_of_letters(row[k] for row in grid.rows[:ROWS])]
        if len(free) > 1 and len(letters) == 1:
            free = letters
            grid.notes.append(f"The sequences are in column {grid.columns[free[0]]!r}.")
        if len(free) != 1:
            problem = f"cannot tell which column holds the sequences: {listing(grid.columns)}"
            raise DataError(problem, file=path, fix="Name it with --sequence COLUMN.")
        (cells,) = free
    is_row_each = of_id is None or (ids is None and len(set(names)) == len(names))
    others = [index for index in columns if index not in (of_id, cells)]
    if needs_label and labels is None and is_row_each and others:
        others = likely_labels(grid, [i for i in others if not is_other(grid, i)] or others)
        first = grid.rows[:ROWS]
        others = [i for i in others if not is_of_letters(row[i] for row in first)] or others
        if len(others) > 1:
            raise ambiguous(grid, others, "label", source, "several columns could be it")
        labels = others[0]
        grid.notes.append(f"The label is taken from column {grid.columns[labels]!r}.")
    label_column = None if labels is None else grid.columns[labels]
    of_rows = [None if labels is None else name_of(row[labels]) or None for row in grid.rows]
    if of_id is None or is_row_each:
        if role(order, "order", set()) is not None:
            problem = f"--order {order} sorts the tokens of a sequence; here a row is a sequence"
            raise DataError(problem, file=path, fix="Leave out --order, or name --id COLUMN.")
        written = {text_of(row[cells]) for row in grid.rows if not isinstance(row[cells], list)}
        if of_id is None and written and 2 * len(written) < len(grid.rows):
            grid.notes.append(
                "Each row is read as a sequence, and most are equal to others; if a row is a "
                "token, name the column of its sequence with --id."
            )
        result = [_tokens(row[cells]) for row in grid.rows]
        is_event = any(isinstance(item, list) and len(item) > 1 for item in result)
        result = [
            [item] if is_event and item and isinstance(item, str) else item for item in result
        ]
        return SequenceFile(
            path, result, of_rows, grid.lines, names, grid, grid.columns[cells], label_column,
            grid.notes,
        )  # fmt: skip
    rows: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        if not name:
            problem, column = "the cell is empty; expected the sequence", grid.columns[of_id]
            raise DataError(problem, file=path, line=grid.lines[k], column=column)
        rows.setdefault(name, []).append(k)
    by = role(order, "order", set())
    if by is None:
        free = [index for index in columns if index not in (labels, of_id, cells)]
        by = next((index for index in free if _ORDER.fullmatch(plain(grid.columns[index]))), None)
    sequences, found_labels = list[Tokens](), list[str | None]()
    for name, entry in rows.items():
        if len(labels_of_id := {of_rows[k] for k in entry}) > 1:
            several = listing(sorted(map(str, labels_of_id)))
            problem = f"the sequence {name!r:.60} has several labels: {several}"
            line = grid.lines[entry[0]]
            raise DataError(problem, file=path, line=line, fix="Give each sequence one label.")
        found_labels += labels_of_id
        if by is not None:
            entry[:] = sorted_by_time(entry, grid, by, str(path))
        sequences.append([name_of(grid.rows[k][cells]) for k in entry])
    lines = [grid.lines[entry[0]] for entry in rows.values()]
    table = Grid([grid.columns[of_id]], [[name] for name in rows], lines, [], True, False, [])
    return SequenceFile(
        path, sequences, found_labels, lines, [*rows], table, grid.columns[cells], label_column,
        grid.notes,
    )  # fmt: skip


def _tokens(cell: Any) -> Tokens:
    """Return a cell as a string of letters, or the tokens in it as a list."""
    if isinstance(cell, list):
        return [item if isinstance(item, int) else text_of(item) for item in cell]
    text = text_of(cell).strip()
    parts = [item for item in _SEPARATORS.split(text) if item]
    return text if len(parts) <= 1 else parts
