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
    """One graph of a file.

    Attributes:
        line: Line of its label (TU format) or object (JSON Lines), for messages.
        count: Number of nodes.
        edge_index: Source and target of each edge ``(2, E)``; undirected edges in both directions.
        nodes: Labels or numbers of the nodes.
        edges: Labels or numbers of the edges.
        label: Class or number as text; None if the graph has no label.
    """

    line: int
    count: int
    edge_index: NDArray[np.int64]
    nodes: Values
    edges: Values
    label: str | None


@dataclass(frozen=True)
class GraphFile:
    """The graphs of a file or folder.

    Attributes:
        source: Its path.
        labels: The file with the labels.
        graphs: The graphs, in order.
        files: All files that were read.
        notes: Notes for the user.
    """

    source: str
    labels: str
    graphs: list[GraphRecord]
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
