"""The TU data sets of graphs, the compared models, and published accuracies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from representer.errors import DataError
from representer_papers.shared.datasets import existing, located, missing

if TYPE_CHECKING:
    import numpy as np
    from torch_geometric.data import Data

# The rows of the table, plain ones first.
FAMILIES = {
    "walk": "walks of n nodes",
    "walk-inverse": "1/(2 − K) over walks",
    "walk-rbf": "RBF over walks",
    "levels": "walks of 1 … n nodes, summed",
    "levels-inverse": "1/(2 − K) over summed levels",
    "levels-rbf": "RBF over summed levels",
    "wl": "Weisfeiler-Lehman subtree",
    "wl-inverse": "1/(2 − K) over Weisfeiler-Lehman",
    "wl-rbf": "RBF over Weisfeiler-Lehman",
}
NETWORKS = {
    "walk-network": "network of walks of 3 nodes",
    "wl-network": "Weisfeiler-Lehman network, 4 levels",
}


@dataclass(frozen=True)
class GraphSet:
    """A data set of graphs and its published accuracies in %.

    Attributes:
        name: Name on the command line.
        folder: Name of its folder and of its file.
        graphs: Number of graphs in the full set.
        order: Number of nodes of the longest walks.
        published: Accuracy by row of `PUBLISHED`.
    """

    name: str
    folder: str
    graphs: int
    order: int
    published: Mapping[str, float] = field(default_factory=dict)


# By row of the table: where the figures are printed, and with what protocol.
PUBLISHED = {
    "WL subtree": "README of the code of Random Walk Graph Neural Networks, NeurIPS 2020",
    "GIN": "the same README",
    "walk kernels": "nested; Kriege, Weisfeiler and Leman Go Walking, 2022",
    "GIN-0": "Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019: at the epoch that is "
    "best on the test folds, so higher than with nested selection",
}

GRAPH_SETS = {
    s.name: s
    for s in (
        GraphSet("mutag", "MUTAG", 188, 6,
                 {"WL subtree": 84.6, "GIN": 84.7, "walk kernels": 87.1, "GIN-0": 89.4}),
        GraphSet("proteins", "PROTEINS", 1_113, 5,
                 {"WL subtree": 73.8, "GIN": 73.3, "walk kernels": 74.8, "GIN-0": 76.2}),
        GraphSet("nci1", "NCI1", 4_110, 6,
                 {"WL subtree": 84.8, "GIN": 80.0, "walk kernels": 85.5, "GIN-0": 82.7}),
        GraphSet("imdb-b", "IMDB-BINARY", 1_000, 3, {"GIN-0": 75.1}),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Located:
    """The files of a data set: its graphs and its folds."""

    dataset: GraphSet
    graphs: Path
    folds: Path


@dataclass(frozen=True)
class GraphData:
    """The content of a data set.

    Attributes:
        graphs: PyG graphs with the label of each node in ``x``, as one column.
        labels: The class of each graph, 0, 1, ….
        folds: The test fold of each graph, 1 to 10; 0 for none.
        has_degrees: Whether node labels are degrees, because all labels in the file are equal.
        digest: SHA-256 of both files.
    """

    graphs: list[Data]
    labels: np.ndarray
    folds: np.ndarray
    has_degrees: bool
    digest: str


def locate(root: Path, names: Sequence[str]) -> list[Located]:
    """Find data sets in a folder, or in its folder ``tu``; see `located` for errors."""

    def find(root: Path, dataset: GraphSet) -> Located:
        name = f"{dataset.folder}/{dataset.folder}.txt"
        graphs = existing(root, ("", "tu"), (name,))
        if graphs is None:
            raise missing(f"{name}, nor tu/{name}, also compressed", root)
        folds = graphs.parent / "fold.txt"
        if not folds.is_file():
            raise DataError("there is no fold.txt in its folder", file=graphs)
        return Located(dataset, graphs, folds)

    return located(root, names, GRAPH_SETS, find)


def read(place: Located) -> GraphData:
    """Read a data set.

    Raises:
        DataError: If a file is invalid; the error names the file and the line.
    """
    import numpy as np
    import torch
    from torch_geometric.data import Data

    from representer_papers.shared.graph_text import read_folds, read_graph_text

    raw = read_graph_text(place.graphs)
    folds = read_folds(place.folds, len(raw))
    missing = sorted(set(range(1, 11)) - set(folds.tolist()))
    if missing or folds.max() > 10:
        problem = f"has no fold {missing[0]}" if missing else f"has a fold {folds.max()}"
        raise DataError(f"{problem}; there must be 1 … 10", file=place.folds)
    has_degrees = len(torch.cat([graph.tags for graph in raw]).unique()) == 1
    graphs = []
    for graph in raw:
        tags = graph.tags
        if has_degrees:
            tags = torch.bincount(graph.edge_index[0], minlength=len(tags))
        graphs.append(Data(x=tags[:, None].double(), edge_index=graph.edge_index))
    labels = np.unique([graph.label for graph in raw], return_inverse=True)[1]
    digest = hashlib.sha256(place.graphs.read_bytes() + place.folds.read_bytes()).hexdigest()
    return GraphData(graphs, labels, folds, has_degrees, digest)
