"""Labeled graphs as returned by the readers, and what they share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import Grid

FEATURES = ("auto", "labels", "attributes")
Values = tuple[Any, ...] | NDArray[np.float64] | None  # labels, numbers (N, d), or None


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


class InvalidGraphError(ValueError):
    """A graph cannot be used.

    Args:
        problem: What is wrong with it.
        edge: Position of the edge that is wrong, if it is one.
    """

    def __init__(self, problem: str, edge: int | None = None) -> None:
        super().__init__(problem)
        self.edge = edge


def distinct(edges: Sequence[list[Any]]) -> list[list[Any]]:
    """Return the edges ``[u, v]`` or ``[u, v, value]``, each pair of nodes once.

    Raises:
        InvalidGraphError: An edge is listed twice, with different values.
    """
    kept: dict[tuple[Any, Any], list[Any]] = {}
    for at, edge in enumerate(edges):
        u, v, *value = edge
        other = kept.setdefault((min(u, v), max(u, v)), edge)[2:]
        if other != value:
            shown = " and ".join(json.dumps(one)[:40] for one in (other[0], value[0]))
            problem = f"the edge {u}–{v} occurs twice, with {shown}; edges are undirected"
            raise InvalidGraphError(problem, at)
    return [*kept.values()]


def repeated_edges(count: int) -> tuple[str, ...]:
    """Return the note that edges are listed more than once, if some are."""
    listed = "1 edge is" if count == 1 else f"{count} edges are"
    note = f"{listed} listed twice; edges are undirected, so each counts once."
    return (note,) if count else ()


def undirected(
    line: int,
    count: int,
    ends: NDArray[np.int64],
    nodes: Values,
    edges: Values,
    label: str | None,
    name: str = "",
) -> GraphRecord:
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
