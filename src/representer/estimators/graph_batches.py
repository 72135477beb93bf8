"""Batches of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from representer.estimators.fitting import shuffled

Arguments = tuple[Tensor, Tensor, Tensor | None, Tensor, int]


class GraphBatches:
    """The part of `Inputs` that all graphs share, once they are PyG's ``Data``."""

    def collate(self, encoded: Sequence[Any]) -> Arguments:
        """Return the arguments of the network, see `collate`."""
        return collate(encoded)

    def size(self, encoded: Any) -> int:
        """Return the number of nodes."""
        return len(encoded.x)

    def batches(
        self, encoded: Sequence[Any], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        """Return the function from an epoch to batches in random order."""
        return shuffled(encoded, batch_size, seed)


def collate(graphs: Sequence[Any]) -> Arguments:
    """Return a batch of graphs: x, edge_index, edge_attr, graph of each node, number of graphs."""
    from torch_geometric.data import Batch

    joined: Any = Batch.from_data_list(list(graphs))
    return joined.x, joined.edge_index, joined.edge_attr, joined.batch, len(graphs)
