"""Selection of the text and label columns, by name or by their content."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from representer.data.tables.grid import MISSING, Grid, name_of
from representer.data.tables.suggest import did_you_mean, listing
from representer.errors import DataError

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
_ESTIMATE = re.compile(r"(^|_)(pred|calc|estim|uncertainty|probability)")
_MEASURED = re.compile(r"(^|_)(measured|exp|experimental|observed|value|activity)(_|$)")
_PARTS = {"train", "training", "valid", "val", "validation", "dev", "test", "testing", ""}


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

    Args:
        grid: The rows.
        option: One name, or several separated by commas. A name may be a position, starting at 1,
            if the format has positions.
        argument: The name of the option, for messages.
        source: The file, for messages.

    Raises:
        DataError: If a column is missing; the message lists the existing ones.
    """
    places = {name_of(column): i for i, column in enumerate(grid.columns)}
    if (place := places.get(name_of(option))) is not None:
        return [place]
    return [_position(grid, places, name, argument, source) for name in requested(option)]


def plain(name: str) -> str:
    """Return a name of a column as in the sets of common names."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def is_other(grid: Grid, column: int) -> bool:
    """Return True if a column has a common name of neither text nor label, such as ``id``."""
    return plain(grid.columns[column]) in OTHER_NAMES


def without_estimates(grid: Grid, found: list[int]) -> list[int]:
    """Return the columns but those that a model has predicted by their name, if others remain."""
    return [i for i in found if not _ESTIMATE.search(plain(grid.columns[i]))] or found


def is_filled(cells: Sequence[object], rows: int) -> bool:
    """Return True if enough rows have a cell for a column to be guessed."""
    return len(cells) > _FILLED * rows


def by_name(grid: Grid, among: Iterable[int], names: Collection[str], canonical: str) -> list[int]:
    """Return the columns with one of some names; the one with the canonical name before others."""
    found = [i for i in among if plain(grid.columns[i]) in names]
    exact = [i for i in found if plain(grid.columns[i]) == canonical]
    return exact if len(exact) == 1 else found


def ambiguous(grid: Grid, found: list[int], argument: str, source: str, why: str) -> DataError:
    """Return the refusal to guess a column; it lists those that could be it, and all."""
    candidates = f" ({listing([grid.columns[i] for i in found])})" if found else ""
    likely = [name for i in found if _MEASURED.search(plain(name := grid.columns[i]))]
    others = [grid.columns[i] for i in without_estimates(grid, found)]
    example = (likely or others or ["COLUMN"])[0]
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
        found = by_name(grid, free, names, "text")
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(grid, found, "text", source, "several columns look like the text")
    free = [i for i in free if not is_other(grid, i)] or free
    if not free:
        raise ambiguous(grid, [], "text", source, "no column is left for the text")
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

    Args:
        grid: The rows.
        texts: The columns of the text.
        source: The file, for messages.
        required: Require a label column. If False, only a common name is recognized, so that a
            number or a date is not mistaken for a class.

    Raises:
        DataError: If a required label is missing or ambiguous.
    """
    free = [i for i in range(len(grid.columns)) if i not in texts]
    found = by_name(grid, free, LABEL_NAMES, "label")
    if not found and required:
        free = [i for i in free if not is_other(grid, i)] or free
        found = free if len(free) == 1 else [i for i in free if _looks_like_classes(grid, i)]
        found = without_estimates(grid, found)
    if len(found) == 1:
        return found[0]
    if not required:
        return None
    problem = "several columns could be the label" if found else "no column looks like a label"
    raise ambiguous(grid, found, "label", source, problem)


def _position(grid: Grid, places: Mapping[str, int], name: str, argument: str, source: str) -> int:
    if (place := places.get(name_of(name))) is not None:
        return place
    if grid.numbered and name.isascii() and name.isdecimal():
        if 1 <= int(name[:9]) <= len(grid.columns):
            return int(name) - 1
        there = f"the file has {len(grid.columns)}"
        fix = f"Pass {argument}= a number from 1 to {len(grid.columns)}."
        raise DataError(f"there is no column number {name}; {there}", file=source, fix=fix)
    kind = "columns are" if grid.header else "file has no header; its columns are"
    raise DataError(
        f"there is no column {name!r}; the {kind} {listing(grid.columns)}",
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
    notes = []
    for at, name in enumerate(grid.columns):
        values = {str(row[at]).strip().lower() for row in grid.rows[:1]}
        if values <= _PARTS:
            values = {str(row[at]).strip().lower() for row in grid.rows} - {""}
        if "train" in values and len(values) > 1 and values <= _PARTS:
            about = f"Column {name!r} is ignored, and the split is made at random."
            notes.append(f"{about} To use it, give its parts as files: --valid, --test.")
    return notes
