"""Batches of graphs, and what an ensemble of graph networks returns for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from representer.estimators.fitting import EVALUATION_BATCH, shuffled
from representer.models import GraphEnsemble

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


@torch.no_grad()
def outputs_of(
    model: nn.Module, graphs: Sequence[Any], check: Callable[[], None] = lambda: None
) -> NDArray[np.float64]:
    """Return the outputs of every member for each graph ``(M, N, outputs)``.

    Args:
        model: The network, in evaluation mode.
        graphs: The graphs.
        check: Called after every batch.
    """
    parts = []
    for arguments in _in_batches(model, graphs):
        parts.append(model(*arguments).double().cpu().numpy())
        check()
    return np.concatenate(parts, axis=1)


@torch.no_grad()
def layers_and_outputs_of(
    model: GraphEnsemble, graphs: Sequence[Any]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the concatenated last hidden layers of all members ``(N, M H)``, and their outputs.

    The outputs ``(M, N, outputs)`` are those of `outputs_of`.
    """
    layers, outputs = [], []
    for arguments in _in_batches(model, graphs):
        hidden = model.hidden(*arguments)
        layers.append(torch.cat([*hidden], dim=1).float().cpu().numpy())
        outputs.append(model.outputs(hidden).double().cpu().numpy())
    return np.concatenate(layers), np.concatenate(outputs, axis=1)


def _in_batches(model: nn.Module, graphs: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    device = next(model.parameters()).device
    for start in range(0, len(graphs), EVALUATION_BATCH):
        arguments = collate(graphs[start : start + EVALUATION_BATCH])
        yield tuple(x.to(device) if isinstance(x, Tensor) else x for x in arguments)
