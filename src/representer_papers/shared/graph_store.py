"""Many small graphs behind each other in few tensors, of which batches are cut quickly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class GraphBatch(NamedTuple):
    """Some graphs as one, as graph layers take them.

    Attributes:
        x: Features of the nodes ``(N, d)``.
        edge_index: Source and target ``(2, E)``.
        edge_attr: Features of the edges ``(E, K)``, or None.
        batch: The graph of each node ``(N,)``.
        y: What is to be predicted of each graph.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    y: Tensor


class GraphStore:
    """Graphs by number.

    Args:
        graphs: PyG ``Data`` with ``x``, ``edge_index`` and perhaps ``edge_attr``; at least one.
        y: What is to be predicted of each.
    """

    def __init__(self, graphs: Sequence[Any], y: Tensor) -> None:
        self.y = y
        edges = [graph.edge_index for graph in graphs]
        self._nodes = _starts([len(graph.x) for graph in graphs])
        self._edges = _starts([index.shape[1] for index in edges])
        self._x = torch.cat([graph.x for graph in graphs])
        self._edge_index = torch.cat(edges, dim=1)
        has_features = graphs[0].edge_attr is not None
        self._edge_attr = torch.cat([g.edge_attr for g in graphs]) if has_features else None

    def __len__(self) -> int:
        return len(self.y)

    def __call__(self, numbers: Sequence[int] | np.ndarray) -> GraphBatch:
        """Return the graphs of these numbers, in their order."""
        chosen = torch.as_tensor(numbers)
        nodes, of_node = _rows(self._nodes, chosen)
        edges, of_edge = _rows(self._edges, chosen)
        sizes = self._nodes[chosen + 1] - self._nodes[chosen]
        moved = (sizes.cumsum(0) - sizes)[of_edge]  # where each graph's nodes begin in the batch
        attributes = None if self._edge_attr is None else self._edge_attr[edges]
        ends = self._edge_index[:, edges] + moved
        return GraphBatch(self._x[nodes], ends, attributes, of_node, self.y[chosen])


def _starts(sizes: Sequence[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def _rows(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the graphs chosen, and the place in ``chosen`` of each row."""
    first = starts[chosen]
    sizes = starts[chosen + 1] - first
    place = torch.repeat_interleave(sizes)
    within = torch.arange(len(place)) - (sizes.cumsum(0) - sizes)[place]
    return first[place] + within, place
