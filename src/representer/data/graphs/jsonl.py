"""Reading of graphs in JSON Lines: one object with ``nodes``, ``edges`` and ``label`` per line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.graphs.records import (
    GraphFile,
    GraphRecord,
    InvalidGraphError,
    Values,
    distinct,
    repeated_edges,
    undirected,
)
from representer.data.tables.blocks import WHOLE
from representer.data.tables.grid import MISSING, name_of
from representer.data.tables.jsonl import read_jsonl
from representer.errors import DataError
from representer.limits import LARGEST_INTEGER

EXAMPLE = '{"nodes": ["C", "O"], "edges": [[0, 1]], "label": "a"}'
_MOST_NODES = 1_000_000  # of a graph whose nodes are not listed
_FIX = f"Every line is an object such as {EXAMPLE}."


def read_jsonl_graphs(path: str | Path, *, require_labels: bool = True) -> GraphFile:
    """Read the graphs of a JSON file; edges are undirected.

    An object may have the keys of PyTorch Geometric instead, ``edge_index`` (two arrays), ``y``,
    and optionally ``x``, ``edge_attr`` and ``num_nodes``.

    An edge that is listed twice, as in both directions, is one edge, with a note.

    Args:
        path: The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
        require_labels: Raise an error for a graph without a label; else labels are not read.

    Raises:
        DataError: If a graph is invalid; the message names the file and line.
    """
    path = Path(path)
    (grid,) = read_jsonl(path, size=WHOLE)
    is_pyg = "edge_index" in grid.columns
    for name in ("nodes", "edges", *(["label"] if require_labels else [])):
        if name not in grid.columns and not is_pyg:
            problem = f"the first object has no {name!r}"
            raise DataError(problem, file=path, line=grid.lines[0], fix=_FIX)
    graphs: list[GraphRecord] = []
    repeated = 0
    for line, cells in zip(grid.lines, grid.rows, strict=True):
        try:
            fields: dict[str, Any] = dict(zip(grid.columns, cells, strict=True))
            fields = _from_pyg(fields) if is_pyg else fields
            graph = _graph(line, fields, require_labels)
            _require_same_kinds(graph, graphs)
        except InvalidGraphError as error:
            raise DataError(str(error), file=path, line=line, fix=_FIX) from None
        graphs.append(graph)
        repeated += len(fields["edges"]) - len(distinct(fields["edges"]))
    return GraphFile(str(path), str(path), graphs, (path,), repeated_edges(repeated))


def parse_graph(value: Any) -> GraphRecord:
    """Return one graph without a label, an object as on a line of a file.

    Raises:
        DataError: It cannot be used.
    """
    try:
        value = _from_pyg(value) if isinstance(value, dict) and "edge_index" in value else value
        if not isinstance(value, dict) or not {"nodes", "edges"} <= value.keys():
            raise DataError("the graph is no object with 'nodes' and 'edges'", fix=_FIX)
        return _graph(1, value, False)
    except InvalidGraphError as error:
        raise DataError(str(error), fix=_FIX) from None


def _from_pyg(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of this format for those of PyG; without x, nodes have no labels."""
    given = {name: value for name, value in fields.items() if value is not MISSING}
    index = given.get("edge_index")
    if not (
        isinstance(index, list) and len(index) == 2 and all(isinstance(e, list) for e in index)
    ):
        raise InvalidGraphError("'edge_index' is not two arrays")
    features, label = given.get("edge_attr"), given.get("y", given.get("label"))
    parts = [*index, *([features] if isinstance(features, list) else [])]
    if len({len(part) for part in parts}) > 1:
        raise InvalidGraphError("the arrays of 'edge_index' and 'edge_attr' differ in length")
    count = given.get(
        "num_nodes", 1 + max((e for e in index[0] + index[1] if type(e) is int), default=0)
    )
    if type(count) is not int or not 0 < count <= _MOST_NODES:
        raise InvalidGraphError(f"'num_nodes' is {count!r:.40}; expected 1 to {_MOST_NODES:,}")
    label = label[0] if isinstance(label, list) and len(label) == 1 else label
    nodes = given.get("x", given.get("node_feat")) or range(count)
    return {
        "nodes": nodes,
        "edges": [list(edge) for edge in zip(*parts, strict=True)],
        "label": label,
    }


def _graph(line: int, fields: dict[str, Any], require_labels: bool) -> GraphRecord:
    nodes, edges = fields["nodes"], fields["edges"]
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
            own, first = _kind(getattr(graph, what)), _kind(getattr(with_values[0], what))
            if own != first:
                problem = f"the {what} have {own}; those of line {with_values[0].line} have {first}"
                raise InvalidGraphError(problem)


def _kind(values: Values) -> str:
    if values is None:
        return "no features"
    if isinstance(values, tuple):
        return "texts as labels" if isinstance(values[0], str) else "integers as labels"
    return f"{values.shape[1]} numbers each"
