"""Input checks of graph layers, and the sum over each graph of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.ops.checks import check_like


def check_graph(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, *, channels: int, edge_dim: int | None,
    like: Tensor,
) -> Tensor | None:  # fmt: skip
    """Check nodes and edges, and return the edge features if the layer uses them.

    Raises:
        ShapeError: If a shape is wrong.
        KindError: If an argument is not a tensor, its dtype or device differs from that of the
            parameters, or edge features are missing.
    """
    if not isinstance(x, Tensor):
        raise KindError("x", type(x).__name__, f"a tensor (nodes, {channels})")
    if x.dim() != 2 or x.shape[1] != channels:
        raise ShapeError("x", x.shape, f"(nodes, {channels}), the layer's in_channels")
    check_like("x", x, like, tuple(x.shape))
    if not isinstance(edge_index, Tensor):
        hint = "Sparse adjacency matrices are not supported."
        raise KindError("edge_index", type(edge_index).__name__, "a tensor (2, edges)", hint=hint)
    _check_edge_index(edge_index, x)
    if edge_dim is None:
        return None
    if edge_attr is None:
        expected = f"a tensor (edges, {edge_dim}), as the layer has edge_dim={edge_dim}"
        raise KindError("edge_attr", "None", expected)
    if edge_attr.dim() == 1 and edge_dim == 1:
        edge_attr = edge_attr[:, None]
    check_like("edge_attr", edge_attr, like, (edge_index.shape[1], edge_dim))
    return edge_attr


def sum_of_graphs(states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Sum the nodes of each graph.

    Args:
        states: ``(N, H)``.
        batch: The graph of each node ``(N,)``; a single graph by default.
        batch_size: Number of graphs; by default computed from ``batch``, which breaks the graph of
            ``torch.compile``.

    Raises:
        ShapeError: If ``batch`` does not have one entry per node.
    """
    if batch is None:
        return states.sum(0, keepdim=True)
    if batch.shape != states.shape[:1]:
        raise ShapeError("batch", batch.shape, f"({len(states)},), the graph of each node")
    if batch_size is None:
        batch_size = int(batch.max()) + 1 if batch.numel() else 0
    return torch.zeros_like(states[:1]).expand(batch_size, -1).index_add(0, batch, states)


def _check_edge_index(edge_index: Tensor, like: Tensor) -> None:
    """Check the dtype and shape of edges; the op checks their values.

    Raises:
        ShapeError: If they are not ``(2, E)``.
        KindError: If they are not int64, or on another device than ``like``.
    """
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ShapeError("edge_index", edge_index.shape, "(2, edges), sources over targets")
    if edge_index.dtype != torch.int64:
        hint = "Use edge_index.long()."
        raise KindError("edge_index", str(edge_index.dtype), "torch.int64", hint=hint)
    if edge_index.device != like.device:
        hint = f"Use edge_index.to({str(like.device)!r})."
        raise KindError("edge_index", f"on {edge_index.device}", f"{like.device}", hint=hint)
