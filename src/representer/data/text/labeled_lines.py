"""Reading of text files with a label, a space and a document on every line."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from representer.data.tables.grid import Dropped
from representer.data.tables.source import physical_lines
from representer.data.tables.suggest import listing
from representer.data.text.table import Table
from representer.errors import DataError


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
                file=path,
                line=number,
                fix="Every line must be a label, a space and a text.",
            )
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
