"""Reading of graphs from a TU folder, a folder of tables, a JSON Lines file or bracketed trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from representer.data.graphs.records import (
    JSON_EXAMPLE,
    GraphFile,
    GraphRecord,
    read_graph_tables,
    read_jsonl_graphs,
)
from representer.data.graphs.records import TABLES_EXAMPLE as TABLES
from representer.data.graphs.tu import read_tu
from representer.data.tables.files import first_lines, format_of, physical_lines
from representer.data.tables.reading import named_table
from representer.errors import ArgumentError, DataError
from representer.kernels.tree_kernels import tree_of


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


# Trees in brackets.

BRACKETS_EXAMPLE = "(3 (2 It) (4 (3 works) (3 well)))"
INNER = "()"  # label of nodes without a word, which no word is
_NOTE = "Edges lead from child to parent; network=tree sums over the chains of nodes."


def is_bracketed(path: Path) -> bool:
    """Return True if the first line of a file is a bracketed tree."""
    if not path.is_file():
        return False
    head = next(filter(None, map(str.strip, first_lines(path, "utf-8", 1000))), "")
    return head.startswith("(") and head.endswith(")")


def read_bracketed_trees(path: str | Path, *, require_labels: bool = True) -> GraphFile:
    """Read bracketed trees, of which the label of the root is the class.

    A node is labeled by its word, and nodes above several others by "()". The labels of
    inner brackets, in the treebank the sentiment of phrases, are not features: they would tell the
    class.

    Args:
        path: The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed. Empty lines are left out.
        require_labels: Raise an error for a tree without a label of its root.

    Raises:
        DataError: If a line is not a tree; the message names the file and line.
    """
    path, trees = Path(path), []
    for number, line in enumerate(physical_lines(path), 1):
        if not line.strip():
            continue
        try:
            trees.append(tree_record(line, number))
        except ArgumentError as error:
            fix = f"Every line is a tree such as {BRACKETS_EXAMPLE}."
            problem = f"{line.strip()!r:.60} is not one tree in brackets"
            raise DataError(problem, file=path, line=number, fix=fix) from error
        if require_labels and not trees[-1].label:
            problem = "the tree has no label after its first bracket"
            raise DataError(problem, file=path, line=number, fix=f"As in {BRACKETS_EXAMPLE}.")
    return GraphFile(str(path), str(path), trees, (path,), (_NOTE,))


def tree_record(text: str, line: int = 1) -> GraphRecord:
    """Return a bracketed tree as a graph, edges from child to parent.

    Raises:
        ArgumentError: If it is not one tree.
    """
    tree = tree_of(text.strip(), "the tree")
    labels, above = list(tree.nodes), dict(tree.edge_index.T.tolist())
    children: list[list[int]] = [[] for _ in labels]
    for child, parent in above.items():
        children[parent].append(child)
    # a bracket around one word is that word
    words = {v: c[0] for v, c in enumerate(children) if len(c) == 1 and not children[c[0]]}
    kept = [v for v in range(len(labels)) if above.get(v) not in words]
    index = {v: i for i, v in enumerate(kept)}
    nodes = [labels[words[v]] if v in words else INNER if children[v] else labels[v] for v in kept]
    edges = [(index[v], index[above[v]]) for v in kept if v in above]
    label = str(labels[0]) if children[0] else ""
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return GraphRecord(line, len(kept), ends, tuple(map(str, nodes)), None, label or None)
