"""Random trees and a forest, for tests of tree kernels and their networks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

F64 = torch.float64


def parents_of(seed: int, nodes: int, roots: int = 1) -> Tensor:
    """Return the edges from child to parent of random trees, nodes and edges in random order."""
    g = torch.Generator().manual_seed(seed)
    places = torch.randperm(nodes, generator=g)
    above = [int(torch.randint(0, v, (), generator=g)) for v in range(roots, nodes)]
    edges = torch.stack((places[roots:], places[torch.tensor(above, dtype=torch.int64)]))
    return edges[:, torch.randperm(edges.shape[1], generator=g)]


def tree(seed: int = 0, nodes: int = 7, d: int = 3, roots: int = 1) -> Data:
    """Return random trees as one object, with normal features."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, d, generator=g, dtype=F64)
    return Data(x=x, edge_index=parents_of(seed, nodes, roots))


def path(x: Tensor) -> Data:
    """Return a tree without branches, the first node deepest."""
    steps = torch.arange(len(x) - 1)
    return Data(x=x, edge_index=torch.stack((steps, steps + 1)))


# Trees of which all kernel values were computed by enumeration.
T = Data(
    x=torch.tensor([[1, 0], [2, 1], [0, 1], [1, 1]], dtype=F64),
    edge_index=torch.tensor([[1, 2, 3], [0, 0, 1]]),
)
U = Data(
    x=torch.tensor([[1, 1], [1, 0], [0, 2]], dtype=F64), edge_index=torch.tensor([[1, 2], [0, 0]])
)
