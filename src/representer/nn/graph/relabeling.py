"""The generalized relabeling of the nodes of a graph, L17 (10)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import NONLINEARITIES
from representer.nn.checks import leaf_of_fx
from representer.nn.graph.graph_network import check_graph
from representer.nn.graph.graph_options import checked_name
from representer.nn.graph.neighbor_sum import NeighborSum
from representer.nn.graph.walk_states import draw
from representer.requirements import check_integer


class Relabeling(nn.Module):
    r"""Computes a new label of every node from its own label and those of its neighbors.

    .. math::
        r(v) = \sigma \Big( U_1 f_v + U_2 \sum_{u \to v} \sigma(V f_u + B e_{uv} + b) + b' \Big)

    (10), with the biases and edge features of the authors' code. New labels have the same number of
    features, so relabeling can be repeated, as in ``kernels.WeisfeilerLehmanKernel(relabel=…)``.

    Args:
        channels: d, features of a label.
        edge_dim: K, features of an edge; None to ignore edge features.
        activation: σ, a name of ``functional.NONLINEARITIES``.
        bias: Add the biases b and b'.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``
        - returns ``(N, d)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (10).
    """

    def __init__(
        self,
        channels: int,
        edge_dim: int | None = None,
        activation: str = "relu",
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.channels = check_integer("channels", channels)
        self.edge_dim = None if edge_dim is None else check_integer("edge_dim", edge_dim)
        checked_name("activation", activation)
        self.activation = activation

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if used else None

        d = channels
        self.weight = nn.Parameter(torch.empty(2 * d, d, device=device, dtype=dtype))  # V, U_1
        self.neighbors = nn.Parameter(torch.empty(d, d, device=device, dtype=dtype))  # U_2
        self.edge_weight = parameter(d, edge_dim or 0, used=edge_dim is not None)
        self.bias = parameter(2 * d, used=bias)  # b, b'
        self.sums = NeighborSum()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in), and set biases to 0."""
        for weight in (self.weight, self.neighbors, self.edge_weight):
            if weight is not None:
                draw(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @leaf_of_fx
    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Return the new labels."""
        edge_index, edges = check_graph(
            x, edge_index, edge_attr, channels=self.channels, edge_dim=self.edge_dim,
            like=self.weight,
        )  # fmt: skip
        sigma = NONLINEARITIES[self.activation].value
        products = F.linear(x, self.weight, self.bias).to(self.weight.dtype)
        inner, own = products.split(self.channels, dim=1)
        if self.edge_weight is None:
            sums = self.sums(sigma(inner), edge_index)
        else:
            sums = self.sums(
                inner, edge_index, edge_attr=edges, shift=self.edge_weight,
                activation=self.activation,
            )  # fmt: skip
        return sigma(own + F.linear(sums, self.neighbors))

    def extra_repr(self) -> str:
        """Return the arguments."""
        edges = "" if self.edge_dim is None else f", edge_dim={self.edge_dim}"
        return f"{self.channels}{edges}, activation={self.activation!r}"
