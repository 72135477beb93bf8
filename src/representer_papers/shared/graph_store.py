"""Many small graphs concatenated in a few tensors, for fast batching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class GraphBatch(NamedTuple):
    """A batch of graphs as one disconnected graph, the input of graph layers."""

    x: Tensor  # (N, d)
    edge_index: Tensor  # (2, E)
    edge_attr: Tensor | None  # (E, K)
    batch: Tensor  # graph of each node (N,)
    y: Tensor  # target of each graph


class GraphStore:
    """Graphs with binary features, indexed by number and stored as bytes.

    Args:
        tensors: A return value of :meth:`tensors`.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self.y = tensors["y"]
        self._nodes, self._edges = _starts(tensors["nodes"]), _starts(tensors["edges"])

    @classmethod
    def of(cls, graphs: Sequence[Any], y: Tensor) -> GraphStore:
        """Concatenate PyG graphs with targets ``y``."""
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
        """Return the stored tensors by name, for writing them to a file."""
        return dict(self._tensors)

    @property
    def features(self) -> int:
        """Number of features of a node."""
        return self._tensors["x"].shape[1]

    def __len__(self) -> int:
        return len(self.y)

    def __call__(self, numbers: Sequence[int] | np.ndarray) -> GraphBatch:
        """Return the graphs with these numbers, in this order."""
        chosen = torch.as_tensor(numbers)
        nodes, graph_of_node = _rows(self._nodes, chosen)
        edges, graph_of_edge = _rows(self._edges, chosen)
        sizes = self._nodes[chosen + 1] - self._nodes[chosen]
        first_node = sizes.cumsum(0) - sizes  # of each graph in the batch
        stored = self._tensors
        features = stored["edge_attr"][edges].float() if "edge_attr" in stored else None
        ends = stored["edge_index"][:, edges] + first_node[graph_of_edge]
        x = stored["x"][nodes].float()
        return GraphBatch(x, ends, features, graph_of_node, self.y[chosen])


def outputs_in_batches(
    model: nn.Module,
    store: GraphStore,
    numbers: Sequence[int] | np.ndarray,
    size: int,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[GraphBatch, Tensor]]:
    """Yield batches of the numbered graphs with the model's outputs; ``check`` runs in between."""
    for start in range(0, len(numbers), size):
        graphs = store(numbers[start : start + size])
        with torch.no_grad():
            outputs = model(graphs)
        yield graphs, outputs
        check()


def _starts(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))


def _rows(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the chosen graphs, and the position in ``chosen`` of each row."""
    first = starts[chosen]
    sizes = starts[chosen + 1] - first
    position = torch.repeat_interleave(sizes)
    within = torch.arange(len(position)) - (sizes.cumsum(0) - sizes)[position]
    return first[position] + within, position
