"""The base class of graph-kernel networks, checks of their input, and the sum over each graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from representer.errors import KindError, ShapeError
from representer.functional import NONLINEARITIES
from representer.functional.graph_walk import edges_of
from representer.nn.checks import shown_arguments
from representer.nn.graph.graph_options import Walks, checked_name
from representer.ops.checks import check_like, wrong_device
from representer.requirements import SuggestsArguments, check_integer


class GraphNetwork(SuggestsArguments, nn.Module):
    """Base class of graph-kernel networks: sizes, options, and the sum over each graph."""

    def __init__(
        self, in_channels: int, hidden_channels: int, options: Walks, activation: str | None
    ) -> None:
        super().__init__()
        self.in_channels = check_integer("in_channels", in_channels)
        self.hidden_channels = check_integer("hidden_channels", hidden_channels)
        self.options, self.activation = options, activation
        self.order, self.decay, self.combine = options.order, options.decay, options.combine
        self.edge_dim, self.gate_scale = options.edge_dim, options.gate_scale
        checked_name("activation", activation)

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        return shown_arguments(self, "in_channels", "hidden_channels", apart={})

    def _read_out(self, states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        """Return the sum of the nodes of each graph, after the activation."""
        final = NONLINEARITIES[self.activation or "identity"]
        return final.value(sum_of_graphs(states, batch, batch_size))


def check_graph(
    x: Tensor, edge_index: Any, edge_attr: Tensor | None, *, channels: int, edge_dim: int | None,
    like: Tensor,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Check nodes and edges, and return the edges and, if the layer uses them, their features.

    ``edge_index`` may be a sparse adjacency, see ``functional.graph_walk.edges_of``, if the layer
    has no edge features.

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
    is_sparse = isinstance(edge_index, Tensor) and edge_index.layout != torch.strided
    if is_sparse or hasattr(edge_index, "to_torch_sparse_coo_tensor"):
        if edge_dim is not None:
            expected = f"a tensor (2, edges) with edge_attr, as the layer has edge_dim={edge_dim}"
            raise KindError("edge_index", "a sparse adjacency", expected)
        edge_index = edges_of(edge_index, x.shape[0])
    if not isinstance(edge_index, Tensor):
        raise KindError("edge_index", type(edge_index).__name__, "a tensor (2, edges)")
    if edge_index.dtype == torch.int32:
        edge_index = edge_index.long()
    _check_edge_index(edge_index, x)
    if edge_dim is None:
        if edge_attr is not None and not edge_attr.is_floating_point():
            got = f"integers {tuple(edge_attr.shape)}, as the graph of each node is"
            expected = "features of the edges, which a layer without edge_dim does not read"
            raise KindError("edge_attr", got, expected, hint="Pass the graphs as batch=batch.")
        return edge_index, None
    if edge_attr is None:
        expected = f"a tensor (edges, {edge_dim}), as the layer has edge_dim={edge_dim}"
        raise KindError("edge_attr", "None", expected)
    if edge_attr.dim() == 1 and edge_dim == 1:
        edge_attr = edge_attr[:, None]
    check_like("edge_attr", edge_attr, like, (edge_index.shape[1], edge_dim))
    return edge_index, edge_attr


def sum_of_graphs(states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Return the sum of the nodes ``(N, H)`` of each graph; a single graph by default.

    Without ``batch_size``, it is computed from ``batch``, which breaks the graph of
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
    zeros = torch.zeros_like(states[:1].sum(0, keepdim=True))  # a row even without nodes
    return zeros.expand(batch_size, -1).index_add(0, batch, states)


def _check_edge_index(edge_index: Tensor, like: Tensor) -> None:
    """Check the dtype and shape of edges; the op checks their values."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ShapeError("edge_index", edge_index.shape, "(2, edges), sources over targets")
    if edge_index.dtype != torch.int64:
        hint = "Use edge_index.long()."
        raise KindError("edge_index", str(edge_index.dtype), "torch.int64", hint=hint)
    if edge_index.device != like.device:
        raise wrong_device("edge_index", edge_index, like.device)
