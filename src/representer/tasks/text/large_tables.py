"""Tables of texts that are larger than memory, or consist of several files."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from representer.data.stored import most
from representer.data.tables import Dropped
from representer.data.tables.reading import table_files
from representer.data.text import stored_texts
from representer.tasks.estimator_objects import Objects
from representer.training.freed_memory import return_freed_memory

LARGE = 128 << 20  # bytes from which texts stay in a file


def is_large(path: str | Path) -> bool:
    """Return True for a folder or a pattern, or a file of 128 MiB or more."""
    if Path(path).is_file():
        return Path(path).stat().st_size >= LARGE
    return Path(path).is_dir() or any(mark in str(path) for mark in "*?[")


def stored(path: str | Path, blocks: Iterable[Objects]) -> Objects:
    """Return the texts of all blocks of a table, of which memory holds labels and lines alone.

    If they are small, they are in memory as always.
    """
    files = tuple(table_files(path))
    names: dict[str, str] = {}
    labels: list[str] = []
    dropped: list[Dropped] = []
    lines = array("q")
    first: Objects | None = None

    def texts() -> Iterator[str]:
        nonlocal first
        for block in blocks:
            first = first or replace(block, objects=[], labels=[], lines=[], rows=range(0))
            labels.extend(names.setdefault(label, label) for label in block.labels)
            lines.extend(block.lines)
            dropped.extend(block.dropped)
            yield from block.objects

    objects = stored_texts(texts())
    assert first is not None  # a table without usable rows is an error of its reader
    is_one = len(files) == 1
    result = replace(
        first, source=str(path), labels_file=str(path), objects=objects, labels=labels,
        lines=np.asarray(lines), rows=np.arange(1, len(labels) + 1), files=files, dropped=dropped,
        has_lines=is_one, is_numbered_by_line=is_one,
    )  # fmt: skip
    if sum(file.stat().st_size for file in files) < LARGE:
        return result.in_memory()
    return_freed_memory()
    some = f"{most(objects):,} rows"
    note = (
        "The table is large: its texts stay in a file. Parts that are split off have at most "
        f"{some}; kernel and baselines learn from {some}, the network from all."
    )
    return replace(result, notes=[*result.notes, note])
