"""Labeled graphs as returned by the readers, from JSON Lines and from tables of nodes and edges."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.checks import LARGEST_INTEGER
from representer.data.tables import Grid
from representer.data.tables.columns import (
    LABEL_NAMES,
    MISSING,
    data_columns,
    find_roles,
    group_names,
    ignored_split,
    name_of,
    number_of,
    plain,
    text_of,
)
from representer.data.tables.files import WHOLE, listing
from representer.data.tables.reading import named_table, read_grid, read_jsonl
from representer.errors import DataError

FEATURES = ("auto", "labels", "attributes")
Values = tuple[Any, ...] | NDArray[np.float64] | None  # labels, numbers (N, d), or None


Columns = dict[str, list[str]]  # names in order, of ``"nodes"`` and of ``"edges"``


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """One graph of a file."""

    line: int  # line of its label (TU format, tables) or object (JSON Lines), for messages
    count: int  # number of nodes
    # source and target of each edge (2, E); undirected edges in both directions
    edge_index: NDArray[np.int64]
    nodes: Values  # labels or numbers of the nodes
    edges: Values  # labels or numbers of the edges
    label: str | None  # class or number as text; None if the graph has no label
    name: str = ""  # in a table of graphs


@dataclass(frozen=True)
class GraphFile:
    """The graphs of a file or folder."""

    source: str  # its path
    labels: str  # the file with the labels
    graphs: list[GraphRecord]  # the graphs, in order
    files: tuple[Path, ...] = ()  # all files that were read
    notes: tuple[str, ...] = ()  # notes for the user
    table: Grid | None = None  # a row for each graph, which predictions are added to
    groups: Sequence[str] = ()  # what each graph belongs to, if a column of groups is named
    columns: Columns | None = None  # names of the labels or numbers of nodes and edges, if any


class InvalidGraphError(ValueError):
    """A graph cannot be used."""

    def __init__(self, problem: str, edge: int | None = None) -> None:
        super().__init__(problem)
        self.edge = edge


def distinct(edges: Sequence[list[Any]]) -> list[list[Any]]:
    """Return the edges ``[u, v]`` or ``[u, v, value]``, each pair of nodes once."""
    kept: dict[tuple[Any, Any], list[Any]] = {}
    for row, edge in enumerate(edges):
        u, v, *value = edge
        other = kept.setdefault((min(u, v), max(u, v)), edge)[2:]
        if other != value:
            shown = " and ".join(json.dumps(x)[:40] for x in (other[0], value[0]))
            problem = f"the edge {u}–{v} occurs twice, with {shown}; edges are undirected"
            raise InvalidGraphError(problem, row)
    return [*kept.values()]


def repeated_edges(count: int) -> tuple[str, ...]:
    """Return the note that edges are listed more than once, if some are."""
    listed = "1 edge is" if count == 1 else f"{count} edges are"
    note = f"{listed} listed twice; edges are undirected, so each counts once."
    return (note,) if count else ()


def undirected(
    line: int, count: int, ends: NDArray[np.int64], nodes: Values, edges: Values, label: str | None,
    name: str = "",
) -> GraphRecord:  # fmt: skip
    """Return a graph with its edges in both directions; ``ends`` has each of them once."""
    both = np.concatenate([ends, ends[::-1]], axis=1)
    is_loop = ends[0] == ends[1]
    keep = np.concatenate([np.ones(len(is_loop), dtype=bool), ~is_loop])
    directed = _in_both_directions(edges, keep)
    return GraphRecord(line, count, both[:, keep], nodes, directed, label, name)


def _in_both_directions(values: Values, keep: NDArray[np.bool_]) -> Values:
    if isinstance(values, tuple):
        return tuple(value for value, kept in zip(values + values, keep, strict=True) if kept)
    return None if values is None else np.concatenate([values, values])[keep]


# Reading of graphs in JSON Lines: one object with ``nodes``, ``edges`` and ``label`` per line.

JSON_EXAMPLE = '{"nodes": ["C", "O"], "edges": [[0, 1]], "label": "a"}'
_MOST_NODES = 1_000_000  # of a graph whose nodes are not listed
_ISOLATED, _NODES_OF_EDGE = 100_000, 10  # of all such graphs of a file, and more for each edge
_FOREIGN = {"edge_index", "links", "multigraph"}  # keys of PyG and NetworkX
_FIX = f"Every line is an object such as {JSON_EXAMPLE}."


def read_jsonl_graphs(
    path: str | Path, *, require_labels: bool = True, groups: str | None = None,
    columns: Columns | None = None,
) -> GraphFile:  # fmt: skip
    """Read the graphs of a JSON file; edges are undirected.

    An object may have the keys of PyTorch Geometric instead, ``edge_index`` (two arrays), ``y``,
    and optionally ``x``, ``edge_attr`` and ``num_nodes``, or those of NetworkX's
    ``node_link_data``: nodes and edges have their attribute ``label``, or else their only one, or
    all if they are numbers; the label is ``label`` or ``y`` of the object or of its ``graph``.

    An edge that is listed twice, as in both directions, is one edge, with a note.

    Args:
        path: The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
        require_labels: Raise an error for a graph without a label; else labels are not read.
        groups: Keys of what graphs belong to, or None.
        columns: See `read_graph_file`.

    Raises:
        DataError: If a graph is invalid; the message names the file and line.
    """
    path, columns = Path(path), {**(columns or {})}
    (grid,) = read_jsonl(path, size=WHOLE)
    is_foreign = not _FOREIGN.isdisjoint(grid.columns)
    for name in ("nodes", "edges", *(["label"] if require_labels else [])):
        if name not in grid.columns and not is_foreign:
            problem = f"the first object has no {name!r}"
            raise DataError(problem, file=path, line=grid.lines[0], fix=_FIX)
    graphs: list[GraphRecord] = []
    repeated = unlisted = 0
    for line, cells in zip(grid.lines, grid.rows, strict=True):
        try:
            fields: dict[str, Any] = dict(zip(grid.columns, cells, strict=True))
            fields = _converted(fields, columns)
            graph = _graph(line, fields, require_labels)
            if "edge_index" in grid.columns and isinstance(fields["nodes"], range):
                unlisted += graph.count - _NODES_OF_EDGE * len(fields["edges"])
            if unlisted > _ISOLATED:
                problem = f"the graphs up to here declare over {_ISOLATED:,} nodes without edges"
                raise InvalidGraphError(problem)
            _require_same_kinds(graph, graphs)
        except InvalidGraphError as error:
            raise DataError(str(error), file=path, line=line, fix=_FIX) from None
        graphs.append(graph)
        repeated += len(fields["edges"]) - len(distinct(fields["edges"]))
    notes = *repeated_edges(repeated), *ignored_split(grid), *ignored_split(_of_networkx(grid))
    names = group_names(grid, groups, str(path), grid.lines)
    return GraphFile(str(path), str(path), graphs, (path,), notes, groups=names, columns=columns)


def _of_networkx(grid: Grid) -> Grid:
    """Return the attributes of the graphs of NetworkX, the first few that are words or flags."""
    cells = [row[grid.columns.index("graph")] for row in grid.rows if "graph" in grid.columns]
    abouts = [about if isinstance(about, dict) else {} for about in cells]
    words = [name for name, value in (abouts or [{}])[0].items() if isinstance(value, str | bool)]
    rows = [[about.get(name) for name in words[:20]] for about in abouts]
    return replace(grid, columns=words[:20], rows=rows)


def parse_graph(value: Any, columns: Columns | None = None) -> GraphRecord:
    """Return one graph without a label, an object as on a line of a file.

    Args:
        value: The object.
        columns: See `read_graph_file`.

    Raises:
        DataError: It cannot be used.
    """
    try:
        value = _converted(value, {**(columns or {})}) if isinstance(value, dict) else value
        if not isinstance(value, dict) or not {"nodes", "edges"} <= value.keys():
            raise DataError("the graph is no object with 'nodes' and 'edges'", fix=_FIX)
        return _graph(1, value, False)
    except InvalidGraphError as error:
        raise DataError(str(error), fix=_FIX) from None


def _converted(fields: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the keys of this format for those of PyG and NetworkX."""
    values = {name: value for name, value in fields.items() if value is not MISSING}
    if "edge_index" in values:
        return _from_pyg(values)
    nodes = values.get("nodes")
    has_objects = isinstance(nodes, list) and nodes and isinstance(nodes[0], dict)
    is_networkx = has_objects or _FOREIGN & values.keys()
    return _from_networkx(values, columns) if is_networkx else fields


def _from_networkx(fields: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the keys of this format for those of ``node_link_data``."""
    lists: dict[str, Any] = {
        "nodes": fields.get("nodes"),
        "edges": fields.get("edges", fields.get("links")),
    }
    for name, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise InvalidGraphError(f"{name!r} is not an array of objects, as of node_link_data")
    nodes, edges = lists.values()
    numbers = {json.dumps(node.get("id")): number for number, node in enumerate(nodes)}
    if len(numbers) < len(nodes):
        raise InvalidGraphError("the 'id' of a node is missing or occurs twice")
    keys = [[json.dumps(edge.get(end)) for end in ("source", "target")] for edge in edges]
    if unknown := {key for pair in keys for key in pair} - numbers.keys():
        raise InvalidGraphError(
            f"an edge ends at {min(unknown)[:40]}, which is the 'id' of no node"
        )
    ends = [[numbers[key] for key in pair] for pair in keys]
    values = _attributes(edges, "edges", ("source", "target", "key"), columns)
    about = fields.get("graph")
    names = (about if isinstance(about, dict) else {}) | fields
    return {
        "nodes": _attributes(nodes, "nodes", ("id",), columns) or range(len(nodes)),
        "edges": [[*e, v] for e, v in zip(ends, values, strict=True)] if values else ends,
        "label": names.get("label", names.get("y")),
    }


def _attributes(
    items: list[dict[str, Any]], what: str, apart: tuple[str, ...], columns: Columns
) -> list[Any]:
    """Return what each node or edge has as label or numbers; nothing if they have no attributes.

    They are in the order of `columns`, or else enter it.
    """
    names = list(dict.fromkeys(name for item in items for name in item if name not in apart))
    names = ["label"] if "label" in names else names
    if names:
        names = columns.setdefault(what, names)
    if any(name not in item for item in items for name in names):
        raise InvalidGraphError(f"some {what} lack an attribute of {names!r:.60}")
    rows = [[item[name] for name in names] for item in items]
    if len(names) == 1 and not any(isinstance(row[0], float) for row in rows):
        return [row[0] for row in rows]
    return rows if names else []


def _from_pyg(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of this format for those of PyG; without x, nodes have no labels."""
    index = fields.get("edge_index")
    if not (
        isinstance(index, list) and len(index) == 2 and all(isinstance(e, list) for e in index)
    ):
        raise InvalidGraphError("'edge_index' is not two arrays")
    features, label = fields.get("edge_attr"), fields.get("y", fields.get("label"))
    parts = [*index, *([features] if isinstance(features, list) else [])]
    if len({len(x) for x in parts}) > 1:
        raise InvalidGraphError("the arrays of 'edge_index' and 'edge_attr' differ in length")
    count = fields.get(
        "num_nodes", 1 + max((e for e in index[0] + index[1] if type(e) is int), default=0)
    )
    if type(count) is not int or not 0 < count <= _MOST_NODES:
        raise InvalidGraphError(f"'num_nodes' is {count!r:.40}; expected 1 to {_MOST_NODES:,}")
    label = label[0] if isinstance(label, list) and len(label) == 1 else label
    nodes = fields.get("x", fields.get("node_feat")) or range(count)
    return {
        "nodes": nodes,
        "edges": [list(edge) for edge in zip(*parts, strict=True)],
        "label": label,
    }


def _graph(line: int, fields: dict[str, Any], require_labels: bool) -> GraphRecord:
    nodes: Any = fields.get("nodes")
    edges: Any = fields.get("edges")
    for name, value in (("nodes", nodes), ("edges", edges)):
        if not isinstance(value, list | range):
            raise InvalidGraphError(f"{name!r} is not an array")
    if not nodes:
        raise InvalidGraphError("the graph has no nodes")
    label = _label(fields.get("label", MISSING)) if require_labels else None
    if label is None and require_labels:
        raise InvalidGraphError("the graph has no label")
    endpoints, values = _edges(edges, len(nodes))
    labels = None if isinstance(nodes, range) else _values(nodes, "node")
    return undirected(line, len(nodes), endpoints, labels, values, label)


def _edges(edges: list[Any], count: int) -> tuple[NDArray[np.int64], Values]:
    """Return the endpoints ``(2, E)`` of the edges, and their labels or numbers."""
    lengths = {len(edge) if isinstance(edge, list) else 0 for edge in edges}
    if lengths - {2, 3}:
        raise InvalidGraphError("an edge is not [u, v] or [u, v, label or numbers]")
    if len(lengths) > 1:
        raise InvalidGraphError("some edges have a label or numbers, others do not")
    for edge in edges:
        u, v = edge[:2]
        for end in (u, v):
            if type(end) is not int or not 0 <= end < count:
                shown = json.dumps(end)[:40]
                expected = f"a node from 0 to {count - 1}"
                raise InvalidGraphError(f"an edge ends at {shown}; expected {expected}")
    edges = distinct(edges)
    endpoints = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    return endpoints, _values([edge[2] for edge in edges], "edge") if lengths == {3} else None


def _values(values: list[Any], what: str) -> Values:
    """Return the labels, or the numbers, of all nodes or edges."""
    if all(isinstance(value, list) for value in values):
        widths = {len(value) for value in values}
        if len(widths) != 1 or widths == {0}:
            listed = " and ".join(map(str, sorted(widths)))
            raise InvalidGraphError(f"a {what} has {listed} numbers; expected equal counts")
        for value in values:
            for number in value:
                if type(number) not in (int, float) or not _is_double(number):
                    shown = json.dumps(number)[:40]
                    raise InvalidGraphError(f"a {what} has the feature {shown}; expected a number")
        return np.array(values, dtype=np.float64)
    for value in values:
        is_integer = type(value) is int and abs(value) <= LARGEST_INTEGER
        if not isinstance(value, str) and not is_integer:
            expected = "a text, an integer, or numbers for each"
            shown = json.dumps(value)[:40]
            raise InvalidGraphError(f"a {what} has the label {shown}; expected {expected}")
    if len({type(value) for value in values}) > 1:
        raise InvalidGraphError(f"some labels of a {what} are texts, others are integers")
    return tuple(values)


def _is_double(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _label(value: Any) -> str | None:
    if value is MISSING or value is None:
        return None
    if isinstance(value, str):
        if not (name := name_of(value)):
            raise InvalidGraphError("the label is empty")
        return name
    if isinstance(value, list | dict):
        raise InvalidGraphError("the label is neither a text nor a number")
    return json.dumps(value)  # true and false for Booleans


def _require_same_kinds(graph: GraphRecord, others: list[GraphRecord]) -> None:
    """Require the same kind of values for nodes and edges as in the previous graphs."""
    for what in ("nodes", "edges"):
        with_values = [g for g in others[:1] if what == "nodes" or g.edge_index.size]
        if what == "edges":
            with_values = with_values or [g for g in others if g.edge_index.size][:1]
            if not graph.edge_index.size:
                continue
        if with_values:
            new, first = _kind(getattr(graph, what)), _kind(getattr(with_values[0], what))
            if new != first:
                problem = f"the {what} have {new}; those of line {with_values[0].line} have {first}"
                raise InvalidGraphError(problem)


def _kind(values: Values) -> str:
    if values is None:
        return "no features"
    if isinstance(values, tuple):
        return "texts as labels" if isinstance(values[0], str) else "integers as labels"
    return f"{values.shape[1]} numbers each"


# A table of graphs, nodes or edges: its cells by their meaning, and its labels or numbers.


@dataclass(frozen=True)
class FeatureTable:
    """The cells of a table whose columns are roles, such as the node, or features."""

    path: Path  # the file
    grid: Grid  # its cells
    places: Mapping[str, int]  # the column of each role
    # which are used: ``"labels"``, ``"attributes"``, or labels if there are some, as ``"auto"``;
    # an empty text for none
    features: str = ""
    wanted: Sequence[str] = ()  # names of the features to use, in order; by default all

    def cells(self, role: str) -> list[str]:
        """Return the cells of a role as text, empty if it has no column."""
        column = self.places.get(role)
        return ["" if column is None else name_of(row[column]) for row in self.grid.rows]

    def error(self, row: int, role: str | int, problem: str, fix: str) -> DataError:
        """Return the error of a cell in the column of a role or at a position."""
        column = self.grid.columns[role if isinstance(role, int) else self.places[role]]
        line = self.grid.lines[row]
        return DataError(problem, file=self.path, line=line, column=column, fix=fix)

    def about(self) -> str:
        """Return in words for what each column is used."""
        named = [(role, [i]) for role, i in self.places.items()]
        labels, numbers, unused = self._features
        named += [("labels", labels), ("numbers", numbers), ("unused, see --features,", unused)]
        words = [
            f"{what} {listing([self.grid.columns[i] for i in columns])}"
            for what, columns in named
            if columns
        ]
        return f"{self.path.name}: {', '.join(words)}"

    def values(self) -> list[Any]:
        """Return the label of each row, several of them joined, or its numbers; empty for neither.

        Raises:
            DataError: A cell of a column of numbers is not a finite number.
        """
        labels, numbers, _ = self._features
        rows = self.grid.rows
        if labels:
            return [",".join(name_of(row[i]) for i in labels) for row in rows]
        return [[self._number(row, i) for i in numbers] for row in range(len(rows)) if numbers]

    @cached_property
    def _features(self) -> tuple[list[int], list[int], list[int]]:
        """The columns of the labels or those of the numbers that are used, and the others."""
        free = [i for i in data_columns(self.grid) if i not in self.places.values()]
        numbers = [i for i in free if self._has_numbers(i)]
        labels = sorted({*free} - {*numbers})
        if not self.features:
            return [], [], []
        used = labels if self.features == "labels" else numbers
        if self.features == "auto":
            used = labels or numbers
        if self.wanted:
            places = {self.grid.columns[i]: i for i in free}
            if absent := [name for name in self.wanted if name not in places]:
                problem = f"there is no column {listing(absent)}, which the model was trained on"
                fix = f"The columns are {listing([*places])}; name them as in training."
                raise DataError(problem, file=self.path, fix=fix)
            used = [places[name] for name in self.wanted]
        unused = [i for i in free if i not in used]
        is_labeled = self.features == "labels"
        if self.features == "auto":
            is_labeled = not {*used}.isdisjoint(labels)
        return (used, [], unused) if is_labeled else ([], used, unused)

    @property
    def columns(self) -> list[str]:
        """The names of the labels or numbers that are used."""
        labels, numbers, _ = self._features
        return [self.grid.columns[i] for i in labels + numbers]

    def _has_numbers(self, column: int) -> bool:
        """Return True if most cells are numbers; integers in a column such as label are labels."""
        cells = [cell for row in self.grid.rows if text_of(cell := row[column]).strip()]
        numbers = [number for cell in cells if (number := number_of(cell)) is not None]
        if plain(self.grid.columns[column]) in LABEL_NAMES and len(numbers) == len(cells):
            return not all(number.is_integer() for number in numbers)
        return 2 * len(numbers) > len(cells)

    def _number(self, row: int, column: int) -> float:
        cell = self.grid.rows[row][column]
        number = number_of(cell)
        if number is None or not math.isfinite(number):
            problem = f"{text_of(cell)!r:.60} is not a finite number, as most cells of its column"
            raise self.error(row, column, problem, "Correct it, or remove the column.")
        return number


# Graphs from a folder with three tables: of graphs, of nodes and of edges.

_GRAPH, _ENDS = {"graph", "graph_id"}, ("source", "target")
_ROLES = {
    "graphs": {"graph": {*_GRAPH, "id"}, "label": LABEL_NAMES},
    "nodes": {"graph": _GRAPH, "node": {"node", "node_id", "id"}},
    "edges": {
        "graph": _GRAPH, "source": {"source", "from", "src"}, "target": {"target", "to", "dst"},
        "edge": {"edge", "edge_id", "id"},
    },
}  # fmt: skip
TABLES_EXAMPLE = (
    "graphs.csv (graph, label), nodes.csv (graph, node, labels or numbers) and edges.csv (graph, "
    "source, target)"
)


def read_graph_tables(
    folder: str | Path, *, features: str = "auto", require_labels: bool = True,
    groups: str | None = None, columns: Columns | None = None,
) -> GraphFile:  # fmt: skip
    """Read the graphs of a folder with a table of graphs, one of nodes and one of edges.

    The columns are found by their names, or else by their position: the graph and its label; the
    graph and the node; the graph and both ends of the edge, which is undirected. In further columns
    of nodes and edges, texts are labels and numbers are features. The names of nodes are any
    values, distinct within a graph.

    Args:
        folder: The folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, or with tables of
            these names in another format.
        features: See `read_graph_file`.
        require_labels: Raise an error for a graph without a label.
        groups: Columns of the table of graphs that name what they belong to, or None.
        columns: See `read_graph_file`.

    Raises:
        DataError: If the graphs are invalid; the message names the file and line.
    """
    wanted = columns or {}
    tables = [
        _read(Path(folder), name, features, require_labels, wanted.get(name, ())) for name in _ROLES
    ]
    graphs, nodes, edges = tables
    labels, rows = graphs.cells("label"), dict[str, int]()
    for row, name in enumerate(graphs.cells("graph")):
        if name in rows or not name:
            problem = f"the graph {name!r:.60} is listed twice" if name else "the cell is empty"
            raise graphs.error(row, "graph", problem, "Give each graph one line and a name.")
        if require_labels and not labels[row]:
            raise graphs.error(row, "label", "the graph has no label", "Add it.")
        rows[name] = row
    node_values, edge_values = nodes.values(), edges.values()
    positions: list[dict[str, int]] = [{} for _ in rows]  # of the nodes of each graph, by name
    values: list[list[Any]] = [[] for _ in rows]
    for row, (graph, name) in enumerate(_located(nodes, graphs, rows, "node")):
        if name in positions[graph]:
            problem = f"the node {name!r:.60} of this graph is listed twice"
            raise nodes.error(row, "node", problem, "Give each node of a graph another name.")
        positions[graph][name] = len(positions[graph])
        values[graph] += node_values[row : row + 1]
    listed: list[list[list[Any]]] = [[] for _ in rows]
    lines: list[list[int]] = [[] for _ in rows]
    for row, (graph, *ends) in enumerate(_located(edges, graphs, rows, *_ENDS)):
        for role, name in zip(_ENDS, ends, strict=True):
            if name not in positions[graph]:
                there = listing([*positions[graph]], 5) or "none"
                problem = f"the graph has no node {name!r:.60}; its nodes are {there}"
                raise edges.error(row, role, problem, "Correct the edge, or add the node.")
        listed[graph].append([*ends, *edge_values[row : row + 1]])
        lines[graph].append(row)
    records, repeated = [], 0
    for (name, row), ids in zip(rows.items(), positions, strict=True):
        if not ids:
            fix = f"Add its nodes to {nodes.path.name}, or remove it."
            raise graphs.error(row, "graph", "the graph has no nodes", fix)
        try:
            kept = distinct(listed[row])
        except InvalidGraphError as error:
            number = lines[row][error.edge or 0]
            raise edges.error(number, "source", str(error), "Keep one of the two.") from None
        repeated += len(listed[row]) - len(kept)
        places = np.array([[ids[u], ids[v]] for u, v, *_ in kept], dtype=np.int64).reshape(-1, 2).T
        between = _array([value for _, _, *rest in kept for value in rest])
        line, label = graphs.grid.lines[row], labels[row] or None
        nodes_of = _array(values[row])
        records.append(undirected(line, len(ids), places, nodes_of, between, label, name))
    files = tuple(table.path for table in tables)
    about = f"columns of {'; '.join(map(FeatureTable.about, tables))}"
    notes = about, *repeated_edges(repeated), *ignored_split(graphs.grid)
    names = group_names(graphs.grid, groups, str(graphs.path), graphs.grid.lines)
    columns = {"nodes": nodes.columns, "edges": edges.columns}
    return GraphFile(
        str(folder), str(graphs.path), records, files, notes, graphs.grid, names, columns
    )


def _read(
    folder: Path, name: str, features: str, require_labels: bool, wanted: Sequence[str]
) -> FeatureTable:
    if (path := named_table(folder, name)) is None:
        fix = f"A folder of tables has {TABLES_EXAMPLE}."
        raise DataError(f"has no table of {name}, such as {name}.csv", file=folder, fix=fix)
    grid, optional = (
        read_grid(path, [], header=True),
        ["edge"] if require_labels else ["edge", "label"],
    )
    places = find_roles(grid, _ROLES[name], path, optional=optional)
    return FeatureTable(path, grid, places, features * (name != "graphs"), wanted)


def _located(
    table: FeatureTable, graphs: FeatureTable, rows: dict[str, int], *roles: str
) -> list[tuple[Any, ...]]:
    """Return for each row of a table that of its graph, and the cells of other roles."""
    header = table.grid.columns[table.places["graph"]]
    if header in rows:
        problem = f"the first line has the graph {header!r:.60}; expected names of columns"
        fix = f"Add such a line: {','.join(table.places)}."
        raise DataError(problem, file=table.path, line=1, fix=fix)
    names = table.cells("graph")
    for row, name in enumerate(names):
        if name not in rows:
            problem = f"the graph {name!r:.60} is not in {graphs.path.name}"
            raise table.error(row, "graph", problem, "Add it there, or remove this line.")
    return [*zip((rows[name] for name in names), *map(table.cells, roles), strict=True)]


def _array(values: list[Any]) -> Values:
    if not values:
        return None
    return tuple(values) if isinstance(values[0], str) else np.array(values, dtype=np.float64)
