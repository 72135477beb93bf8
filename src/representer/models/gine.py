"""The graph isomorphism network with edge features from PyG, as a baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from representer.errors import MissingExtraError


class GINE(nn.Module):
    r"""Layers of PyG's ``GINEConv``, summed over the nodes.

    .. math::
        h_v \leftarrow \mathrm{relu}\,\mathrm{MLP}\Big(
            h_v + \sum_{u \to v} \mathrm{relu}(h_u + E e_{uv}) \Big)

    Args:
        in_channels: Features of a node.
        hidden_channels: Number of units.
        depth: Number of layers.
        edge_dim: Features of an edge; None if there are none.

    Shape:
        - as in ``representer.nn.WLKernelNN``

    Raises:
        MissingExtraError: If torch_geometric is not installed.

    References:
        Hu et al., Strategies for Pre-training Graph Neural Networks, ICLR 2020.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, depth: int = 4, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        try:
            from torch_geometric.nn import GINConv, GINEConv
        except ImportError as error:
            raise MissingExtraError("the network gine", "torch_geometric", "graph") from error
        H = hidden_channels
        self.embedding = nn.Linear(in_channels, H)
        mlps = [nn.Sequential(nn.Linear(H, H), nn.ReLU(), nn.Linear(H, H)) for _ in range(depth)]
        self.layers = nn.ModuleList(
            GINConv(mlp) if edge_dim is None else GINEConv(mlp, edge_dim=edge_dim) for mlp in mlps
        )
        self.edge_dim = edge_dim

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the sum over the nodes of each graph ``(num_graphs, H)``."""
        from torch_geometric.nn import global_add_pool

        h = self.embedding(x)
        edges = () if self.edge_dim is None else (edge_attr,)
        for layer in self.layers:
            h = torch.relu(layer(h, edge_index, *edges))
        return global_add_pool(h, batch, batch_size)
