"""Reading of graphs from a TU folder, a folder of tables, a JSON Lines file or bracketed trees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.checks import LARGEST_INTEGER, parse_number
from representer.data.graphs.records import (
    JSON_EXAMPLE,
    Columns,
    GraphFile,
    GraphRecord,
    Values,
    read_graph_tables,
    read_jsonl_graphs,
)
from representer.data.graphs.records import TABLES_EXAMPLE as TABLES
from representer.data.tables.columns import split_note
from representer.data.tables.files import format_of
from representer.data.tables.reading import first_lines, named_table, physical_lines
from representer.errors import ArgumentError, DataError
from representer.kernels.tree_kernels import tree_of

# Graphs in TU format: a folder of text files with one line per edge, node or graph.

_EDGES = "_A.txt"
_SPLIT = re.compile(r"split|fold|train|test|partition", re.IGNORECASE)  # names of other files


def read_tu(
    folder: str | Path, *, features: str = "auto", is_regression: bool = False,
    require_labels: bool = True,
) -> GraphFile:  # fmt: skip
    """Read a folder in TU format.

    ``NAME_A.txt`` lists directed edges. Duplicates of an edge are dropped.

    Args:
        folder: The folder.
        features: See `read_graph_file`.
        is_regression: See `read_graph_file`.
        require_labels: Raise an error for a folder without graph labels and graph attributes.

    Raises:
        DataError: If the graphs are invalid; the message names the file and line.
    """
    return _Folder((tu_folders(Path(folder)) or [Path(folder)])[0], features).read(
        is_regression, require_labels
    )


def tu_folders(folder: Path) -> list[Path]:
    """Return the folders of data sets: itself, or the ``raw`` in it that PyG downloads to."""
    places = [folder, folder / "raw", *sorted(folder.glob("*/raw"))]
    return [p for p in places if any(p.glob("*_graph_indicator.txt*"))]


class _Folder:
    """The files of one data set."""

    def __init__(self, folder: Path, features: str) -> None:
        names = sorted(p.name for p in folder.iterdir() if p.name.endswith(_EDGES))
        if len(names) != 1:
            listed = ", ".join(names[:3])
            problem = f"has several data sets: {listed}" if names else "has no file NAME_A.txt"
            fix = (
                f"Pass the folder of one data set in TU format, one with {TABLES}, or a JSONL file "
                f"with a graph on each line: {JSON_EXAMPLE}."
            )
            raise DataError(problem, file=folder, fix=fix)
        self.folder, self.features = folder, features
        self.name = names[0].removesuffix(_EDGES)
        self.read_files: list[Path] = []
        self.notes: list[str] = []

    def path(self, part: str) -> Path:
        return self.folder / f"{self.name}_{part}.txt"

    def read(self, is_regression: bool, require_labels: bool) -> GraphFile:
        graph_of = self._integers("graph_indicator", 1)[:, 0]
        labels_path, labels = self._labels(is_regression, require_labels)
        count = int(graph_of.max()) if labels is None else len(labels)
        self._require_range(graph_of, count, "graph_indicator", "graph")
        if count > len(graph_of):  # before anything of this size is allocated
            missing = np.setdiff1d(np.arange(1, len(graph_of) + 2), graph_of)
            raise self._without_nodes(int(missing[0]))
        counts = np.bincount(graph_of - 1, minlength=count)
        if not counts.all():
            raise self._without_nodes(int(np.flatnonzero(counts == 0)[0]) + 1)
        ends = self._edges(graph_of)
        nodes = self._values("node", len(graph_of))
        edges = self._values("edge", len(ends))
        node_order = np.argsort(graph_of, kind="stable")
        index = np.empty(len(graph_of), dtype=np.int64)
        index[node_order] = np.arange(len(graph_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = np.unique(ends, axis=0, return_index=True)[1]
        if len(first) < len(ends):
            repeated = len(ends) - len(first)
            self.notes.append(f"{repeated} edges are listed twice and read once")
        first.sort()
        edge_graph = graph_of[ends[first, 0]]
        edge_order = first[np.argsort(edge_graph, kind="stable")]
        node_parts = np.split(node_order, np.cumsum(counts)[:-1])
        edge_counts = np.bincount(edge_graph - 1, minlength=count)
        edge_parts = np.split(edge_order, np.cumsum(edge_counts)[:-1])
        graphs = [
            GraphRecord(
                line=number + 1,
                count=len(ids),
                edge_index=np.ascontiguousarray(index[ends[own_edges]].reshape(-1, 2).T),
                nodes=_take(nodes, ids),
                edges=_take(edges, own_edges) if len(own_edges) else None,
                label=None if labels is None else labels[number],
            )
            for number, (ids, own_edges) in enumerate(zip(node_parts, edge_parts, strict=True))
        ]
        unread = {path.name for path in self.folder.iterdir()} - {p.name for p in self.read_files}
        for name in sorted(unread):
            if _SPLIT.search(name.removeprefix(self.name)):
                self.notes.append(split_note(name))
        source = str(self.folder)
        return GraphFile(source, str(labels_path), graphs, (*self.read_files,), (*self.notes,))

    def _without_nodes(self, number: int) -> DataError:
        fix, path = "Every graph needs at least one node.", self.path("graph_indicator")
        return DataError(f"graph {number} has no nodes", file=path, fix=fix)

    def _labels(self, is_regression: bool, require_labels: bool) -> tuple[Path, list[str] | None]:
        parts = ["graph_labels", "graph_attributes"]
        for name in reversed(parts) if is_regression else parts:
            path = self.path(name)
            if path.exists():
                cells = [line.strip() for line in self._lines(name)]
                for number, cell in enumerate(cells, 1):
                    if parse_number(cell) is None:
                        problem = f"{cell!r:.60} is not one number"
                        raise DataError(problem, file=path, line=number)
                return path, cells
        if require_labels:
            problem = f"has neither {self.path(parts[0]).name} nor {self.path(parts[1]).name}"
            raise DataError(problem, file=self.folder, fix="Add one of the two files.")
        return self.folder, None

    def _edges(self, graph_of: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the endpoints ``(E, 2)`` of all edges, 0-based."""
        ends = self._integers("A", 2)
        self._require_range(ends, len(graph_of), "A", "node")
        ends = ends - 1
        graphs = graph_of[ends]
        is_invalid = np.flatnonzero(graphs[:, 0] != graphs[:, 1])
        if is_invalid.size:
            row = int(is_invalid[0])
            a, b = graphs[row].tolist()
            problem = f"an edge joins a node of graph {a} and a node of graph {b}"
            raise DataError(problem, file=self.path("A"), line=row + 1)
        return ends

    def _values(self, what: str, count: int) -> Values:
        """Return the labels or the attributes of all nodes or edges."""
        chosen = [name for name in ("labels", "attributes") if self.path(f"{what}_{name}").exists()]
        if len(chosen) == 2 and self.features == "auto":
            self.notes.append(
                f"{self.path(f'{what}_attributes').name} is not used; --features attributes uses it"
            )
        elif self.features != "auto":
            chosen = [name for name in chosen if name == self.features]
        if not chosen:
            return None
        name = f"{what}_{chosen[0]}"
        if chosen[0] == "labels":
            table = self._integers(name, None)
            single = table.shape[1] == 1
            rows = table.tolist()
            values: Values = tuple(row[0] if single else ",".join(map(str, row)) for row in rows)
        else:
            values = self._numbers(name, None)
        if len(values) != count:
            problem = f"has {len(values)} lines for {count} {what}s"
            raise DataError(problem, file=self.path(name))
        return values

    def _lines(self, name: str) -> list[str]:
        path = self.path(name)
        self.read_files.append(path)
        lines = [line.rstrip("\r\n") for line in physical_lines(path)]
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            raise DataError("contains no numbers", file=path)
        return lines

    def _numbers(self, name: str, columns: int | None) -> NDArray[np.float64]:
        """Return a table of finite numbers, with the columns of the first line if None."""
        path, rows = self.path(name), []
        for line, text in enumerate(self._lines(name), 1):
            cells = text.split(",")
            columns = columns or len(cells)
            if len(cells) != columns:
                problem = f"has {len(cells)} numbers; expected {columns}"
                raise DataError(problem, file=path, line=line)
            row = [parse_number(cell) for cell in cells]
            for cell, number in zip(cells, row, strict=True):
                if number is None or not np.isfinite(number):
                    problem = f"{cell.strip()!r:.60} is not a finite number"
                    raise DataError(problem, file=path, line=line)
            rows.append(row)
        return np.array(rows, dtype=np.float64)

    def _integers(self, name: str, columns: int | None) -> NDArray[np.int64]:
        table = self._numbers(name, columns)
        is_invalid = np.argwhere((table != np.floor(table)) | (np.abs(table) > LARGEST_INTEGER))
        if len(is_invalid):
            row, column = is_invalid[0].tolist()
            problem = f"{table[row, column]:g} is not an integer"
            raise DataError(problem, file=self.path(name), line=row + 1)
        return table.astype(np.int64)

    def _require_range(self, table: NDArray[np.int64], maximum: int, name: str, what: str) -> None:
        is_invalid = np.argwhere((table < 1) | (table > maximum))
        if len(is_invalid):
            position = tuple(is_invalid[0].tolist())
            problem = f"there is no {what} {table[position]}; they are numbered from 1 to {maximum}"
            raise DataError(problem, file=self.path(name), line=position[0] + 1)


def _take(values: Values, rows: NDArray[np.int64]) -> Values:
    if isinstance(values, tuple):
        return tuple(values[row] for row in rows.tolist())
    return None if values is None else values[rows]


def read_graph_file(
    path: str | Path, *, features: str = "auto", is_regression: bool = False,
    require_labels: bool = True, groups: str | None = None, columns: Columns | None = None,
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
        columns: Names of the labels or numbers to use of nodes and edges, in this order, in tables
            and of NetworkX's ``node_link_data``; by default all, as they stand.

    Raises:
        DataError: If the graphs are invalid; the message names the file and line.
    """
    path = Path(path)
    if path.is_dir() and named_table(path, "nodes"):
        how: Any = {"require_labels": require_labels, "groups": groups, "columns": columns}
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
    how = {"require_labels": require_labels, "groups": groups, "columns": columns}
    return read_jsonl_graphs(path, **how)


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
