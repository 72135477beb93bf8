"""Selection of the text and label columns, by name or by their content."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from representer.checks import is_missing, parse_number, written_number
from representer.data.tables.files import (
    ROW,
    BlockSize,
    Row,
    did_you_mean,
    listing,
    unguard_formula,
)
from representer.errors import ArgumentError, DataError

# The cells of a file, before its columns are selected, and the dropped rows.

MISSING = object()
"""A missing cell, in formats that allow it."""


def text_of(cell: object) -> str:
    """Return a cell as text, ``""`` for a missing value."""
    if cell is None or cell is MISSING:
        return ""
    return cell if isinstance(cell, str) else str(cell)


def hold_numbers(cells: Iterable[object]) -> bool:
    """Return True if there are numbers and nothing else, but for empty cells and words for them."""
    has_number = False
    for cell in cells:
        if cell is None or cell is MISSING:
            continue
        if number_of(cell) is not None:
            has_number = True
        elif not is_missing(text_of(cell)):
            return False
    return has_number


def name_of(cell: object) -> str:
    """Return a cell as a name: without whitespace around it, its accents composed.

    Names that look alike are equal then, however they were typed; Unicode writes an accented
    letter as one character or as two, and most systems show no difference.
    """
    return unicodedata.normalize("NFC", text_of(cell).strip())


def number_of(cell: object) -> float | None:
    """Return a cell as a number, None if it is none."""
    return float(cell) if isinstance(cell, float) else written_number(text_of(cell))


def require_filled(cells: int, content: int, path: Path) -> None:
    """Refuse a table that needs much more memory than its file, since most cells are empty.

    ``content`` is the number of characters of the rows, as written.
    """
    if cells > 2_000_000 + content:
        problem = f"has {cells:,} cells in {content:,} characters, so nearly all are empty"
        raise DataError(problem, file=path, fix="Remove columns and cells that are hardly used.")


@dataclass(frozen=True)
class Dropped:
    """A dropped row.

    Args:
        line: The line of the file on which the row starts, counted from 1.
        reason: The reason, for example ``"empty text"``.
    """

    line: int
    reason: str


@dataclass(frozen=True)
class Grid:
    """Cells by row and column."""

    columns: list[str]  # distinct names
    rows: Sequence[Sequence[object]]  # strings, or for JSON and Parquet any value, or MISSING
    lines: list[int]  # the physical line on which each row starts, from 1
    dropped: list[Dropped]  # lines without a row
    header: bool  # the file names its columns
    numbered: bool  # columns may also be given by position, starting at 1
    notes: list[str]  # guesses made while reading
    written: Sequence[str] = ()  # the names as in the file, where a column may have none

    @property
    def head(self) -> Sequence[str]:
        """The names of the columns as they are written back."""
        return self.written or self.columns


BLANK = "blank line"
MOST_REASONS, MOST_LINES = 20, 5  # shown; a reason may quote the row


class LeftOut:
    """Counts of dropped rows by reason, in bounded memory.

    As text, it is for example ``"3 rows left out: 2 empty text (lines 4, 9), 1 empty label (line
    12)"``; an empty string if nothing was left out.

    Attributes:
        total: Number of dropped rows.
        counts: Their number by reason, for the first `MOST_REASONS` reasons.
        lines: The first `MOST_LINES` lines of each of these reasons.
    """

    def __init__(self, dropped: Sequence[Dropped] = ()) -> None:
        self.total, self._hidden = 0, set[int]()
        self.counts, self.lines = Counter[str](), dict[str, list[int]]()
        self.add(dropped)

    def add(self, dropped: Sequence[Dropped]) -> None:
        """Count dropped rows."""
        self.total += len(dropped)
        for row in dropped:
            if row.reason not in self.lines and len(self.lines) >= MOST_REASONS:
                self._hidden.add(hash(row.reason))
                continue
            lines = self.lines.setdefault(row.reason, [])
            self.counts[row.reason] += 1
            if len(lines) < MOST_LINES:
                lines.append(row.line)

    def __str__(self) -> str:
        """Return a sentence for the user."""
        if not self.total:
            return ""
        parts = []
        for reason, count in self.counts.items():
            shown = ", ".join(map(str, self.lines[reason])) + ", ..." * (count > MOST_LINES)
            parts.append(f"{count} {reason} (line{'s' if count > 1 else ''} {shown})")
        if self._hidden:
            parts.append(f"and for {len(self._hidden)} other reasons")
        rows = f"{self.total} row{'s' if self.total > 1 else ''}"
        return f"{rows} left out: {', '.join(parts)}"


def left_out(dropped: Sequence[Dropped]) -> str:
    """Return the number of rows left out, with reasons and their first lines, see `LeftOut`."""
    return str(LeftOut(dropped))


TEXT_NAMES = {
    "text", "texts", "document", "documents", "doc", "sentence", "sentences", "review", "reviews",
    "review_text", "content", "contents", "body", "description", "comment", "comments", "message",
    "abstract", "article", "tweet", "post", "passage", "utterance", "snippet", "question",
    "statement", "email_text", "full_text",
}  # fmt: skip
SECOND_TEXT_NAMES = {"title", "headline", "subject", "summary", "heading", "header"}
LABEL_NAMES = {
    "label", "labels", "class", "classes", "class_index", "class_name", "category", "categories",
    "target", "targets", "sentiment", "stars", "star", "rating", "polarity", "topic", "tag",
    "intent", "emotion", "y", "gold", "gold_label",
}  # fmt: skip
OTHER_NAMES = {
    "id", "ids", "idx", "index", "guid", "uuid", "url", "link", "date", "time", "timestamp",
    "split", "source", "author", "user", "user_id", "unnamed:_0",
}  # fmt: skip
_KNOWN = TEXT_NAMES | SECOND_TEXT_NAMES | LABEL_NAMES | OTHER_NAMES | {"smiles"}
_CLOSE, _FILLED = 0.75, 0.05
_ESTIMATE = re.compile(r"(^|_)(pred|calc|estim|uncertainty|probability|error|std)")
_MEASURED = re.compile(
    r"(?<![a-z0-9])(measured|exp|experimental|observed|value|activity|target|label|y|"
    r"p?(ic50|ec50|ac50|ki|kd))(?![a-z0-9])(?!.*_(id|units?|type)$)"
)
_SPLITS = {"split", "partition", "is_train", "is_test"}  # names of columns that can be nothing else
_TRAINING = {"train", "training"}
_PARTS = {*_TRAINING, "valid", "val", "validation", "dev", "test", "testing", ""}


def is_known_name(cell: str) -> bool:
    """Return True if a cell is a common column name."""
    return plain(cell) in _KNOWN


def count_names(row: Iterable[str], wanted: Iterable[str] = ()) -> int:
    """Return the number of cells of a row that are common or wanted names of columns."""
    names = {plain(name) for name in wanted}
    return sum(is_known_name(cell) or plain(cell) in names for cell in row)


def requested(option: str | None) -> list[str]:
    """Return the names in an option such as ``"title,description"``."""
    return [name.strip() for name in option.split(",")] if option else []


def resolve(grid: Grid, option: str, argument: str, source: str) -> list[int]:
    """Return the positions of the named columns.

    The option is one name, or several separated by commas; a name may be a position, starting at 1,
    if the format has positions.

    Raises:
        DataError: If a column is missing; the message lists the existing ones.
    """
    places = {name_of(column): i for i, column in enumerate(grid.columns)}
    if (position := places.get(name_of(option))) is not None:
        return [position]
    return [_position(grid, places, name, argument, source) for name in requested(option)]


def group_names(
    grid: Grid, groups: str | None, source: str, lines: Iterable[int], taken: Collection[int] = ()
) -> list[str]:
    """Return what the rows on some lines belong to: the cells of one or of several columns.

    The name is empty for an empty cell; ``taken`` are the columns of objects and labels.

    Raises:
        DataError: If a column is missing.
    """
    places = resolve(grid, groups, "groups", source) if groups else []
    if not {*places}.isdisjoint(taken):
        raise ArgumentError("groups", groups, "columns other than those of objects and labels")
    rows = dict(zip(grid.lines, grid.rows, strict=True)) if places else {}
    names = ([name_of(rows[line][i]) for i in places] for line in (lines if places else ()))
    return [", ".join(cells) if all(cells) else "" for cells in names]


def plain(name: str) -> str:
    """Return a name of a column as in the sets of common names."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_other(grid: Grid, column: int) -> bool:
    """Return True if a column has a common name of neither text nor label, such as ``id``."""
    return plain(grid.columns[column]) in OTHER_NAMES


def likely_labels(grid: Grid, columns: list[int]) -> list[int]:
    """Return the columns that are measured by their name, or else those that no model predicted."""
    names = {i: plain(grid.columns[i]) for i in columns}
    others = [i for i in columns if not _ESTIMATE.search(names[i])]
    return [i for i in others if _MEASURED.search(names[i])] or others or columns


def is_filled(cells: Sequence[object], rows: int) -> bool:
    """Return True if enough rows have a cell for a column to be guessed."""
    return len(cells) > _FILLED * rows


def by_name(grid: Grid, among: Iterable[int], names: Collection[str], canonical: str) -> list[int]:
    """Return the columns with one of some names; the one with the canonical name before others."""
    columns = [i for i in among if plain(grid.columns[i]) in names]
    exact = [i for i in columns if plain(grid.columns[i]) == canonical]
    return exact if len(exact) == 1 else columns


def role_of(
    grid: Grid, columns: Iterable[int], source: str, option: str | None, argument: str,
    names: Collection[str],
) -> int | None:  # fmt: skip
    """Return the named column or, by default, that with one of some names, if there is one."""
    if option is not None:
        return resolve(grid, option, argument, source)[0]
    matches = by_name(grid, columns, names, argument) if grid.header else []
    return matches[0] if matches else None


def label_role(
    grid: Grid, columns: Iterable[int], source: str, label: str | None, *, is_needed: bool
) -> int | None:
    """Return the column of the labels; one that is not needed may be missing."""
    try:
        return role_of(grid, columns, source, label, "label", LABEL_NAMES)
    except DataError:
        if is_needed:
            raise
    return role_of(grid, columns, source, None, "label", LABEL_NAMES)


def refuse_columns(path: Path, **options: str | None) -> None:
    """Refuse names of columns for a file that is no table."""
    for name, value in options.items():
        if value is not None:
            problem = f"--{name} {value} names a column of a table; this is no table"
            raise DataError(problem, file=path, fix=f"Leave out --{name}.")


def ambiguous(grid: Grid, found: list[int], argument: str, source: str, why: str) -> DataError:
    """Return the refusal to guess a column; it lists those that could be it, and all."""
    candidates = f" ({listing([grid.columns[i] for i in found])})" if found else ""
    example = [*(grid.columns[i] for i in likely_labels(grid, found)), "COLUMN"][0]
    return DataError(
        f"cannot tell which column holds the {argument}: {why}{candidates}; "
        f"the columns are {listing(grid.columns)}",
        file=source,
        fix=f'Name it, for example {argument}="{example}".'
        if len(grid.columns) > 1
        else "Pass a table with a header, or lines such as __label__good a fine film.",
    )


def guess_text(grid: Grid, label: int | None, source: str) -> int:
    """Return the text column: the one with a common name, or else the one with the longest cells.

    Raises:
        DataError: If more than one column is possible.
    """
    free = [i for i in range(len(grid.columns)) if i != label]
    for names in (TEXT_NAMES, SECOND_TEXT_NAMES):
        columns = by_name(grid, free, names, "text")
        if len(columns) == 1:
            return columns[0]
        if columns:
            raise ambiguous(grid, columns, "text", source, "several columns look like the text")
    free = [i for i in free if not is_other(grid, i)] or free
    if not free:
        raise ambiguous(grid, [], "text", source, "no column is left for the text")
    texts = [i for i in free if not hold_numbers(row[i] for row in grid.rows)]
    numbers = [i for i in free if i not in texts]
    if label is None and len(numbers) > 1 and all(_looks_like_classes(grid, i) for i in texts):
        texts = []  # but a class, such as a species
    if not texts:
        names = listing([grid.columns[i] for i in numbers])
        fix = f'Name it if it is a text: text="{grid.columns[numbers[0]]}".'
        problem = f"there are numbers only in {names}, not texts; numbers in time are series"
        raise DataError(problem, file=source, fix=fix)
    free = texts
    if label is None:
        free = [i for i in free if not _looks_like_classes(grid, i)] or free
    lengths = {i: _mean_length(grid, i) for i in free}
    longest, *others = sorted(free, key=lambda i: -lengths[i])
    if others and lengths[others[0]] >= _CLOSE * lengths[longest]:
        close = [longest, others[0]]
        raise ambiguous(grid, close, "text", source, "the columns are about equally long")
    return longest


def guess_label(grid: Grid, texts: list[int], source: str, *, required: bool) -> int | None:
    """Return the label column: the one with a common name, or else the only one with few values.

    If none is required, only a common name is recognized, so that a number or a date is not
    mistaken for a class.

    Raises:
        DataError: If a required label is missing or ambiguous.
    """
    free = [i for i in range(len(grid.columns)) if i not in texts]
    columns = by_name(grid, free, LABEL_NAMES, "label")
    if not columns and required:
        free = [i for i in free if not is_other(grid, i)] or free
        columns = free if len(free) == 1 else [i for i in free if _looks_like_classes(grid, i)]
        columns = likely_labels(grid, columns)
    if len(columns) == 1:
        return columns[0]
    if not required:
        return None
    problem = "several columns could be the label" if columns else "no column looks like a label"
    raise ambiguous(grid, columns, "label", source, problem)


def _position(grid: Grid, places: Mapping[str, int], name: str, argument: str, source: str) -> int:
    if (i := places.get(name_of(name))) is not None:
        return i
    if grid.numbered and name.isascii() and name.isdecimal():
        if 1 <= int(name[:9]) <= len(grid.columns):
            return int(name) - 1
        there = f"the file has {len(grid.columns)}"
        fix = f"Pass {argument}= a number from 1 to {len(grid.columns)}."
        raise DataError(f"there is no column number {name}; {there}", file=source, fix=fix)
    what = "columns are" if grid.header else "file has no header; its columns are"
    raise DataError(
        f"there is no column {name!r}; the {what} {listing(grid.columns)}",
        file=source,
        fix=f"{did_you_mean(name, grid.columns)}Pass {argument}= one of them.",
    )


def _mean_length(grid: Grid, column: int) -> float:
    lengths = [len(cell) for row in grid.rows if isinstance(cell := row[column], str)]
    return sum(lengths) / len(grid.rows) if lengths else 0.0


def _looks_like_classes(grid: Grid, column: int) -> bool:
    cells = [row[column] for row in grid.rows]
    values = {cell for cell in cells if isinstance(cell, (str, int)) and cell != ""}
    if any(isinstance(cell, (list, dict)) or cell is MISSING for cell in cells):
        return False
    if not is_filled([cell for cell in cells if cell not in ("", None)], len(cells)):
        return False
    return 2 <= len(values) <= max(2, min(1000, len(cells) // 2))


def ignored_split(grid: Grid) -> list[str]:
    """Return a note on a column that divides the rows into parts, which nothing reads."""
    for i, name in enumerate(grid.columns):
        values = {str(row[i]).strip().lower() for row in grid.rows[:1]}
        if values <= _PARTS or plain(name) in _SPLITS:
            values = {text_of(row[i]).strip().lower() for row in grid.rows} - {""}
            is_named = plain(name) in _SPLITS and len(values) <= min(20, len(grid.rows) // 2)
            if len(values) > 1 and (is_named or (values <= _PARTS and values & _TRAINING)):
                return [split_note(f"Column {name!r}")]
    return []


def split_note(what: str) -> str:
    """Return that something which divides the objects into parts is not read."""
    about = f"{what} is ignored, and the split is made at random."
    return f"{about} To use it, give its parts as files: --valid, --test."


# Columns with a fixed meaning, such as the two ends of an edge, found by name or position.

_INDEX = {"", "unnamed:_0", "__index_level_0__"}  # names of the row numbers that pandas writes


def data_columns(grid: Grid) -> list[int]:
    """Return the positions of all columns but the index of a data frame."""
    return [i for i, name in enumerate(grid.head) if plain(name) not in _INDEX]


def find_roles(
    grid: Grid, roles: Mapping[str, Collection[str]], path: str | Path, *,
    optional: Collection[str] = (),
) -> dict[str, int]:  # fmt: skip
    """Return the position of the column of each role.

    A column has a role by its name; the roles without such a column have the first columns that are
    left, in order. The role itself is the first choice of its names, see `plain`; optional ones are
    found by name only.
    """
    places: dict[str, int] = {}
    for role, names in roles.items():
        columns = by_name(grid, range(len(grid.columns)), names, role)
        if len(columns) > 1:
            listed = listing([grid.columns[i] for i in columns])
            fix = f"Rename the one to use to {role!r}, or remove the others."
            raise DataError(f"several columns could be the {role}: {listed}", file=path, fix=fix)
        if columns:
            places[role] = columns[0]
    free = [i for i in data_columns(grid) if i not in places.values()]
    for role in roles:
        if role not in places and role not in optional:
            if not free:
                problem = f"no column is left for the {role}; the columns are {listing(grid.head)}"
                raise DataError(problem, file=path, fix=f"Add a column {role!r}.")
            places[role] = free.pop(0)
    return {role: places[role] for role in roles if role in places}


# The header of a table of texts: whether there is one, and the names of the columns.

SAMPLE = 1000  # rows that a header is told from
LONGEST_NAME = 60
ABOVE = 20  # rows that may stand above a header
_NO_HEADER = "put a row of names above it, or pass --header false with texts"


def grids(
    path: Path, rows: Iterable[tuple[int, list[str] | str]], wanted: list[str], header: bool | None,
    size: BlockSize, notes: list[str],
) -> Iterator[Grid]:  # fmt: skip
    """Yield the blocks of a table, whose first row may name the columns.

    ``rows`` has the line of each row and its cells, of equal width but for a title above the
    header, or the reason for which it is dropped. ``wanted`` columns help to detect a header, if
    ``header`` does not say whether there is one.
    """
    first: list[str] | None = None
    columns: list[str] = []
    written: list[str] = []
    named, count = False, 0
    for block in blocks(rows, size, path):
        kept = [(line, row) for line, row in block if isinstance(row, list)]
        dropped = [Dropped(line, row) for line, row in block if isinstance(row, str)]
        if first is None and kept:
            above = 0 if header is False else rows_above([row for _, row in kept], wanted)
            is_short = len(kept[0][1]) < len(kept[above][1])  # cannot be a row of the table
            dropped += [Dropped(line, "above the header") for line, _ in kept[:above]]
            kept = kept[above:]
            start, first = kept[0]
            below = [row for _, row in kept]
            if above and header is None and not (is_short and has_header(below) is False):
                header = True
            named, note = _decide_header(below, header, wanted)
            notes += [note] if note else []
            columns = [str(number + 1) for number in range(len(first))]
            if named:
                columns, written = _names(path, first, start, wanted), first
                kept = kept[1:]
        if named:
            again = [line for line, row in kept if row == first]
            dropped += [Dropped(line, "header repeated") for line in again]
            dropped.sort(key=lambda row: row.line)
            kept = [(line, row) for line, row in kept if row != first] if again else kept
        count += len(kept)
        places, cells = [line for line, _ in kept], [row for _, row in kept]
        yield Grid(
            columns, cells, places, dropped, named, numbered=True, notes=notes,
            written=written,
        )  # fmt: skip
        notes = []
    if first is None:
        raise DataError("contains only blank lines", file=path)
    if not count:
        fix = f"If the first row is data, {_NO_HEADER}."
        raise DataError("has a header and no documents", file=path, fix=fix)


def rows_above(rows: list[list[str]], wanted: Iterable[str] = ()) -> int:
    """Return the number of rows above the header, such as a title; 0 if it is not clear.

    The header is the first row with cells in most columns, if it has more names of columns than
    each row above it. If none has any, it is one that may be a header.
    """
    width = max(len(row) for row in rows[: ABOVE + 1])
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[:ABOVE]]
    least = max(min(2, width), width / 2)
    first = next((k for k, n in enumerate(filled) if len(rows[k]) == width and n >= least), 0)
    most = max((count_names(above, wanted) for above in rows[:first]), default=0)
    if count_names(rows[first], wanted) > most or len(rows[0]) < width:
        return first
    return 0 if most or has_header(rows[first:]) is not None else first


def _decide_header(
    rows: list[list[str]], header: bool | None, wanted: list[str]
) -> tuple[bool, str]:
    """Return True if the first row is a header, and a note if that is a guess."""
    if header is not None:
        return header, ""
    first = [cell.strip() for cell in rows[0]]
    numbers = [name for name in wanted if name.isascii() and name.isdecimal()]
    if len(numbers) < len(wanted):  # columns were given by name, so there is a header
        return True, ""
    shown = has_header(rows)
    if shown is True or (shown is None and numbers and set(numbers) <= set(first)):
        return True, ""
    if shown is False or numbers:
        numbered = f"the columns are numbered 1 to {len(first)}"
        return False, f"The first row is used as data, not as a header: {numbered}."
    names = listing([cell[:40] for cell in first])
    return True, f"The first row is used as the header: {names}; if it is data, {_NO_HEADER}."


def has_header(rows: list[list[str]]) -> bool | None:
    """Return True if the first row is a header, False if it is data, None if it could be either.

    The first row is data if one of its cells recurs in its column like a class, is a number in a
    column of numbers, or is too long for a name. It is a header if it contains a common name, such
    as ``text`` or ``label``.
    """
    first, rest = rows[0], rows[1 : SAMPLE + 1]
    if not rest:
        return None
    if any(len(cell) > LONGEST_NAME or "\n" in cell or "\r" in cell for cell in first):
        return False
    for cell, *column in zip(first, *(row for row in rest if row != first), strict=True):
        if _is_number(cell) and all(map(_is_number, column)):
            return False
        if cell and _is_one_of_few(cell, column):
            return False
    distinct = len({cell.strip() for cell in first}) == len(first)
    return True if distinct and any(map(is_known_name, first)) else None


def _is_number(cell: str) -> bool:
    return parse_number(cell) is not None


def _is_one_of_few(cell: str, column: list[str]) -> bool:
    counts = Counter(column)
    return cell in counts and len(counts) <= max(2, len(column) // 5)


def _names(path: Path, first: list[str], line: int, wanted: list[str]) -> list[str]:
    """Return the names of the columns; one without a name of its own is named by its number."""
    names = [cell.strip() or str(number) for number, cell in enumerate(first, 1)]
    by_name = {name for name in wanted if not name.isdecimal()}
    for name, count in Counter(names).items():
        if count > 1 and (name in by_name or not by_name):
            fix = f"Rename one; if the first row is data, {_NO_HEADER}."
            problem = f"{count} columns have this name in the header"
            raise DataError(problem, file=path, line=line, column=name, fix=fix)
    first_of = {name: i for i, name in reversed([*enumerate(names, 1)])}
    return [name if first_of[name] == i else str(i) for i, name in enumerate(names, 1)]


# Class names and their indices.


def alike(labels: Iterable[Any]) -> str:
    """Return a note on texts that differ in case or blanks alone; empty if there are none."""
    first: dict[str, str] = {}
    for label in labels:
        text = label if isinstance(label, str) else ""
        if (other := first.setdefault(text.strip().casefold(), text)) != text:
            return f"The classes {other!r} and {label!r} differ in case or blanks alone."
    return ""


def remarks(labels: Iterable[Any]) -> list[str]:
    """Return notes on classes: see `alike`, and those that are words for a missing value."""
    classes = dict.fromkeys(labels)
    words = [repr(c) for c in classes if isinstance(c, str) and c and is_missing(c)]
    note = f"{', '.join(words)}: taken as a class; leave the cell empty if the label is unknown"
    return [*filter(None, [alike(classes)]), *([note] if words else [])]


@dataclass(frozen=True)
class LabelMap:
    """The names of the classes; the index of a class is its position.

    Args:
        names: The distinct names.

    Raises:
        ArgumentError: If there are no names, or one is empty or a duplicate.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check for empty and duplicate names."""
        if not self.names or "" in self.names or len(set(self.names)) < len(self.names):
            raise ArgumentError("names", self.names, "one or more distinct names, none empty")

    @classmethod
    def build(cls, labels: Iterable[str]) -> LabelMap:
        """Collect the classes of labels, in numerical order if all are integers."""
        names = sorted(set(labels))
        if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
            names.sort(key=int)
        return cls(tuple(names))

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.names)

    def encode(
        self, label: str, *, file: str | Path | None = None, line: int | None = None,
        column: str | None = None,
    ) -> int:  # fmt: skip
        """Return the index of a class.

        Args:
            label: The class name, possibly with the prefix of :func:`guard_formula`.
            file: The file of the label, for messages.
            line: The line of the label.
            column: The column of the label.

        Raises:
            DataError: If the class is unknown.
        """
        number = self._numbers.get(label, self._numbers.get(unguard_formula(label)))
        if number is None:
            raise DataError(
                f"the label {label!r} is not one of the {len(self)} classes: {listing(self.names)}",
                file=file, line=line, column=column,
                fix=f"{did_you_mean(label, self.names)}Correct the label or remove the row.",
            )  # fmt: skip
        return number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


MOST_DROPPED = 100_000  # rows that follow each other, such as blank lines: each is kept to be named


def blocks(
    rows: Iterable[tuple[int, Row]], size: BlockSize, path: Path
) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows with their lines, in order, in blocks.

    A text in place of a row is the reason for which it is dropped; a row follows it in its block.
    """
    block, held, limit, dropped = list[tuple[int, Row]](), 0, size.head, 0
    for line, row in rows:
        dropped = dropped + 1 if isinstance(row, str) else 0
        if dropped > MOST_DROPPED:
            problem = f"more than {MOST_DROPPED:,} rows without content follow each other ({row})"
            raise DataError(problem, file=path, line=line, fix="Delete them.")
        block.append((line, row))
        held += ROW + sum(len(cell) for cell in row if isinstance(cell, str))
        if held >= limit and not isinstance(row, str):
            yield block
            block, held, limit = [], 0, size.rest
    if block:
        yield block
