"""Text files by their content: lines of fastText, one text a line, or a table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from representer.data.tables.blocks import SMALL, BlockSize
from representer.data.tables.columns import count_names
from representer.data.tables.grid import BLANK, Grid
from representer.data.tables.header import ABOVE, grids
from representer.data.tables.source import first_lines, physical_lines

_LABEL = re.compile(r"(?:^|(?<=\s))__label__(\S+)\s*")
_BINARY = {"PAR1": "parquet", "PK\x03\x04": "workbook"}


def content_of(path: Path, encoding: str, wanted: list[str]) -> str:
    """Return the format that the first lines of a file show; ``"lines"`` if it is no table."""
    head = [line for line in first_lines(path, encoding, ABOVE) if line.strip()] or [""]
    if kind := _BINARY.get(head[0][:4]):
        return kind
    if _LABEL.match(head[0]):
        return "labeled"
    if re.match(r"\s*(\{|\[\s*(\{|$))", head[0]):
        return "jsonl"
    if all("\t" in line for line in head):
        return "tsv"
    for mark in ",;":
        first, *rest = csv.reader(head, delimiter=mark)
        is_table = len(first) > 1 and rest and all(len(row) == len(first) for row in rest)
        if is_table and count_names(first, wanted):
            return "csv"
    return "lines"


def read_lines(
    path: Path, *, wanted: list[str], encoding: str, size: BlockSize = SMALL, is_labeled: bool
) -> Iterator[Grid]:
    """Return the lines of a text in blocks, each without its end, in the first wanted column.

    Args:
        path: The file.
        wanted: Names of the columns that will be used.
        encoding: Name of the encoding.
        size: Limits of a block.
        is_labeled: Read lines of fastText, such as ``__label__good a fine film``, as the columns
            ``label`` and ``text``; several labels are joined by ``|``.
    """
    columns = ["label", "text"] if is_labeled else [*wanted[:1]] or ["text"]

    def rows() -> Iterator[tuple[int, list[str] | str]]:
        yield 0, columns
        for number, line in enumerate(physical_lines(path, encoding), 1):
            if not (text := line.rstrip("\r\n")).strip():
                yield number, BLANK
            elif is_labeled:
                yield number, ["|".join(_LABEL.findall(text)), _LABEL.sub("", text).strip()]
            else:
                yield number, [text]

    kind = "label and text" if is_labeled else "a text"
    return grids(path, rows(), wanted, True, size, [f"Each line is read as {kind}."])
