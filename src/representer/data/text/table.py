"""Labeled documents read from a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from representer.data.tables.grid import Dropped
from representer.errors import DataError


@dataclass(frozen=True)
class Table:
    """Documents and their labels, in the order of the file.

    Args:
        texts: One document per row.
        labels: One label per row, or None if the file has none.
        lines: The physical line of the file on which each row starts, counted from 1 (for Parquet:
            the row number).
        columns: All columns of the file.
        text_column: The column of the text; several are joined by a comma.
        label_column: The column of the label, or None.
        dropped: The dropped rows, with reasons.
        source: The source of the documents, usually the path of the file.
        header: True if the first row names the columns.
        notes: One sentence for the user about each inferred property.
    """

    texts: list[str]
    labels: list[str] | None
    lines: list[int]
    columns: list[str]
    text_column: str
    label_column: str | None
    dropped: list[Dropped]
    source: str
    header: bool = True
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.texts)


def check_labels(table: Table) -> dict[str, int]:
    """Check that a classifier can be trained on a table.

    Args:
        table: The documents.

    Returns:
        The number of documents of each class, most frequent first.

    Raises:
        DataError: If there are no labels, or all documents have the same label.
    """
    if table.labels is None:
        raise DataError(
            f"no label column; the columns are {', '.join(map(repr, table.columns))}",
            file=table.source,
            fix="Training needs one: name it with label=COLUMN.",
        )
    counts = Counter(table.labels)
    if len(counts) < 2:
        raise DataError(
            f"all {len(table)} documents have the label {next(iter(counts), None)!r}",
            file=table.source,
            column=table.label_column,
            fix="A classifier needs at least two classes; is this the right label column?",
        )
    return dict(counts.most_common())
