"""Many small graphs behind each other in few tensors, of which batches are cut quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Graphs by number, whose features are zeros and ones, kept as bytes.

    Args:
        tensors: What :meth:`tensors` returned.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self.y = tensors["y"]
        self._nodes, self._edges = _starts(tensors["nodes"]), _starts(tensors["edges"])

    @classmethod
    def of(cls, graphs: Sequence[Any], y: Tensor) -> GraphStore:
        """Join graphs.

        Args:
            graphs: PyG ``Data`` with ``x``, ``edge_index`` and perhaps ``edge_attr``.
            y: What is to be predicted of each.
        """
        tensors = {
            "x": torch.cat([graph.x.to(torch.uint8) for graph in graphs]),
            "edge_index": torch.cat([graph.edge_index for graph in graphs], dim=1),
            "nodes": torch.tensor([len(graph.x) for graph in graphs]),
            "edges": torch.tensor([graph.edge_index.shape[1] for graph in graphs]),
            "y": y,
        }
        if graphs[0].edge_attr is not None:
            features = [graph.edge_attr.to(torch.uint8) for graph in graphs]
            tensors["edge_attr"] = torch.cat(features)
        return cls(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Return all there is, to be written to a file."""
        return dict(self._tensors)

    @property
    def features(self) -> int:
        """Features of a node."""
        return self._tensors["x"].shape[1]

    def __len__(self) -> int:
        return len(self.y)

    def __call__(self, numbers: Sequence[int] | np.ndarray) -> GraphBatch:
        """Return the graphs of these numbers, in their order."""
        chosen = torch.as_tensor(numbers)
        nodes, of_node = _rows(self._nodes, chosen)
        edges, of_edge = _rows(self._edges, chosen)
        sizes = self._nodes[chosen + 1] - self._nodes[chosen]
        moved = (sizes.cumsum(0) - sizes)[of_edge]  # where each graph's nodes begin in the batch
        kept = self._tensors
        features = kept["edge_attr"][edges].float() if "edge_attr" in kept else None
        ends = kept["edge_index"][:, edges] + moved
        return GraphBatch(kept["x"][nodes].float(), ends, features, of_node, self.y[chosen])


def _starts(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))


def _rows(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the graphs chosen, and the place in ``chosen`` of each row."""
    first = starts[chosen]
    sizes = starts[chosen + 1] - first
    place = torch.repeat_interleave(sizes)
    within = torch.arange(len(place)) - (sizes.cumsum(0) - sizes)[place]
    return first[place] + within, place
