"""Reading of graphs from a TU folder, a folder of tables, a JSON Lines file or bracketed trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from representer.data.graphs.brackets import (
    BRACKETS_EXAMPLE,
    is_bracketed,
    read_bracketed_trees,
)
from representer.data.graphs.records import (
    JSON_EXAMPLE,
    GraphFile,
    read_graph_tables,
    read_jsonl_graphs,
)
from representer.data.graphs.records import TABLES_EXAMPLE as TABLES
from representer.data.graphs.tu import read_tu
from representer.data.tables.files import format_of
from representer.data.tables.reading import named_table
from representer.errors import DataError


def read_graph_file(
    path: str | Path, *, features: str = "auto", is_regression: bool = False,
    require_labels: bool = True, groups: str | None = None,
) -> GraphFile:  # fmt: skip
    """Read graphs with their labels.

    Args:
        path: A folder in TU format, a folder of tables, a JSON Lines file, or a file of bracketed
            trees.
        features: For a folder with both, use the ``"labels"`` or the ``"attributes"`` of nodes
            and edges; ``"auto"`` uses labels.
        is_regression: For a TU folder with both, use graph attributes instead of graph labels.
        require_labels: Raise an error for a graph without a label.
        groups: Columns or keys of what graphs belong to, or None.

    Raises:
        DataError: If the graphs are invalid; the message names the file and line.
    """
    path = Path(path)
    if path.is_dir() and named_table(path, "nodes"):
        how: Any = {"require_labels": require_labels, "groups": groups}
        return read_graph_tables(path, features=features, **how)
    if groups and (path.is_dir() or is_bracketed(path)):
        fix = f"Give graphs in JSON Lines, with a key for it, or a folder of {TABLES}."
        raise DataError(f"has no columns, so no groups {groups!r:.60}", file=path, fix=fix)
    if path.is_dir():
        return read_tu(
            path, features=features, is_regression=is_regression, require_labels=require_labels
        )
    if is_bracketed(path):
        return read_bracketed_trees(path, require_labels=require_labels)
    if format_of(path) not in ("jsonl", "lines"):
        expected = f".jsonl with one graph a line, trees such as {BRACKETS_EXAMPLE}, or a folder"
        problem = f"the suffix is {path.suffix!r}; expected {expected}"
        fix = f"Pass the folder of {TABLES}, or write each graph as an object: {JSON_EXAMPLE}."
        raise DataError(problem, file=path, fix=fix)
    return read_jsonl_graphs(path, require_labels=require_labels, groups=groups)
