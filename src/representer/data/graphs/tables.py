"""Graphs from a folder with three tables: of graphs, of nodes and of edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from representer.data.graphs.feature_table import FeatureTable
from representer.data.graphs.records import (
    GraphFile,
    InvalidGraphError,
    Values,
    distinct,
    repeated_edges,
    undirected,
)
from representer.data.tables.columns import LABEL_NAMES
from representer.data.tables.reading import named_table, read_grid
from representer.data.tables.roles import find_roles
from representer.data.tables.suggest import listing
from representer.errors import DataError

_GRAPH, _ENDS = {"graph", "graph_id"}, ("source", "target")
_ROLES = {
    "graphs": {"graph": {*_GRAPH, "id"}, "label": LABEL_NAMES},
    "nodes": {"graph": _GRAPH, "node": {"node", "node_id", "id"}},
    "edges": {
        "graph": _GRAPH, "source": {"source", "from", "src"}, "target": {"target", "to", "dst"},
        "edge": {"edge", "edge_id", "id"},
    },
}  # fmt: skip
EXAMPLE = (
    "graphs.csv (graph, label), nodes.csv (graph, node, labels or numbers) and edges.csv (graph, "
    "source, target)"
)


def read_graph_tables(
    folder: str | Path, *, features: str = "auto", require_labels: bool = True
) -> GraphFile:
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

    Raises:
        DataError: If the graphs are invalid; the message names the file and line.
    """
    tables = [_read(Path(folder), name, features, require_labels) for name in _ROLES]
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
    for (name, row), own in zip(rows.items(), positions, strict=True):
        if not own:
            fix = f"Add its nodes to {nodes.path.name}, or remove it."
            raise graphs.error(row, "graph", "the graph has no nodes", fix)
        try:
            kept = distinct(listed[row])
        except InvalidGraphError as error:
            at = lines[row][error.edge or 0]
            raise edges.error(at, "source", str(error), "Keep one of the two.") from None
        repeated += len(listed[row]) - len(kept)
        places = np.array([[own[u], own[v]] for u, v, *_ in kept], dtype=np.int64).reshape(-1, 2).T
        between = _array([value for _, _, *rest in kept for value in rest])
        line, label = graphs.grid.lines[row], labels[row] or None
        nodes_of = _array(values[row])
        records.append(undirected(line, len(own), places, nodes_of, between, label, name))
    files = tuple(table.path for table in tables)
    notes = (f"columns of {'; '.join(map(FeatureTable.about, tables))}", *repeated_edges(repeated))
    return GraphFile(str(folder), str(graphs.path), records, files, notes, graphs.grid)


def _read(folder: Path, name: str, features: str, require_labels: bool) -> FeatureTable:
    if (path := named_table(folder, name)) is None:
        fix = f"A folder of tables has {EXAMPLE}."
        raise DataError(f"has no table of {name}, such as {name}.csv", file=folder, fix=fix)
    grid, optional = (
        read_grid(path, [], header=True),
        ["edge"] if require_labels else ["edge", "label"],
    )
    places = find_roles(grid, _ROLES[name], path, optional=optional)
    return FeatureTable(path, grid, places, features * (name != "graphs"))


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
