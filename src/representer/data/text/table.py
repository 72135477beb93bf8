"""Labeled documents read from a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from representer.data.tables.grid import Dropped


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
