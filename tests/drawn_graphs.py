"""Random graphs, and the options of the layer of random walks, for tests of graph networks."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch_geometric.data import Data

F64 = torch.float64
WALK_OPTIONS = [
    {"decay": decay, "combine": combine, "nonlinear": nonlinear, "edge_dim": edge_dim}
    for decay, combine, nonlinear, edge_dim in product(
        (0.5, "learned", "gated"), ("multiply", "add"), (False, True), (None, 2)
    )
]


def graph(seed: int = 0, nodes: int = 5, edges: int = 9, dtype: torch.dtype = F64) -> Data:
    """Return a graph with 3 features of a node and 2 of an edge."""
    g = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(nodes, 3, generator=g, dtype=dtype),
        edge_index=torch.randint(0, nodes, (2, edges), generator=g),
        edge_attr=torch.randn(edges, 2, generator=g, dtype=dtype),
    )


def edge_features(net: Any, graph: Any) -> Any:
    """Return the features of the edges of a graph for a layer that reads them, else None."""
    return None if net.edge_dim is None else graph.edge_attr
