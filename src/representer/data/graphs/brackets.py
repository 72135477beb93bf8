"""Reading of a file with one bracketed tree a line, such as the Stanford Sentiment Treebank."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from representer.data.graphs.records import GraphFile, GraphRecord
from representer.data.tables.files import first_lines, physical_lines
from representer.errors import ArgumentError, DataError
from representer.kernels.tree_kernels import tree_of

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
