"""Labeled graphs as returned by the readers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEATURES = ("auto", "labels", "attributes")
Values = tuple[Any, ...] | NDArray[np.float64] | None  # labels, numbers (N, d), or None


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """One graph of a file."""

    line: int  # line of its label (TU format) or object (JSON Lines), for messages
    count: int  # number of nodes
    # source and target of each edge (2, E); undirected edges in both directions
    edge_index: NDArray[np.int64]
    nodes: Values  # labels or numbers of the nodes
    edges: Values  # labels or numbers of the edges
    label: str | None  # class or number as text; None if the graph has no label


@dataclass(frozen=True)
class GraphFile:
    """The graphs of a file or folder."""

    source: str  # its path
    labels: str  # the file with the labels
    graphs: list[GraphRecord]  # the graphs, in order
    files: tuple[Path, ...] = ()  # all files that were read
    notes: tuple[str, ...] = ()  # notes for the user
