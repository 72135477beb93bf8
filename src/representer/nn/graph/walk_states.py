"""One chain c_1 … c_n of a graph layer.

c_j[v] = p_j[v] o lam sum_{u -> v} sigma(c_{j-1}[u]) * R^(j) e_uv          L17 (6), (8), section 4
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import NONLINEARITIES, walks_end
from representer.nn.graph.graph_options import Walks
from representer.nn.graph.neighbor_sum import NeighborSum


class WalkStates(nn.Module):
    """The chain with its references and decay.

    Attributes:
        weight: The nodes of the references ``(n·H, I)``.
        edge_weight: The edges of the references ``((n − 1)·H, K)``, or None.
        decay_logit: σ^{−1} of a learned decay ``(H,)``, or None.
        gate_weight: Gate matrices of source and target, output by input ``(2·H, I)``, or None.
        gate_edge: Gate matrix of the edge ``(H, K)``, or None.
        gate_bias: Gate bias ``(H,)``, or None.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        options: Walks,
        *,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.options, self.hidden_channels = options, hidden_channels

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if used else None

        H, K, has_edges = hidden_channels, options.edge_dim or 0, options.edge_dim is not None
        n, is_gated = options.order, options.decay == "gated"
        self.weight = nn.Parameter(torch.empty(n * H, in_channels, device=device, dtype=dtype))
        self.edge_weight = parameter((n - 1) * H, K, used=has_edges)
        self.decay_logit = parameter(H, used=options.decay == "learned")
        self.gate_weight = parameter(2 * H, in_channels, used=is_gated)
        self.gate_edge = parameter(H, K, used=is_gated and has_edges)
        self.gate_bias = parameter(H, used=is_gated)
        self.sums = NeighborSum()
        self.reset_parameters()

    @property
    def nodes(self) -> Tensor:
        """The nodes of the references ``(n, H, I)``, a view."""
        return self.weight.unflatten(0, (self.options.order, self.hidden_channels))

    @property
    def edges(self) -> Tensor | None:
        """The edges of the references ``(n − 1, H, K)``, a view, or None."""
        shape = self.options.order - 1, self.hidden_channels
        return None if self.edge_weight is None else self.edge_weight.unflatten(0, shape)

    @property
    def gates(self) -> Tensor | None:
        """The gate's matrices on source and target ``(2, H, I)``, a view, or None."""
        shape = 2, self.hidden_channels
        return None if self.gate_weight is None else self.gate_weight.unflatten(0, shape)

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in), and set biases and logits to 0."""
        for weight in (self.weight, self.edge_weight, self.gate_weight, self.gate_edge):
            if weight is not None:
                draw(weight)
        for parameter in (self.gate_bias, self.decay_logit):
            if parameter is not None:
                nn.init.zeros_(parameter)

    def decay_value(self) -> Tensor | None:
        """Return λ ``()`` if it is constant or ``(H,)`` if learned; None for a gate."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        decay = self.options.decay
        # not stored as a tensor, so that it is exact after conversion of the layer to float64
        return None if isinstance(decay, str) else self.weight.new_full((), decay)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> list[Tensor]:
        """Return c_1 … c_n of every node, each ``(N, H)``."""
        o, H = self.options, self.hidden_channels
        weights, bias, edges = self.weight, None, self.edges
        if self.gate_weight is not None:
            weights = torch.cat((weights, self.gate_weight))
            assert self.gate_bias is not None
            bias = F.pad(self.gate_bias, ((o.order + 1) * H, 0))
        # autocast may reduce the precision of products, but not of sums
        products = F.linear(x, weights, bias).to(self.weight.dtype).split(H, dim=1)
        gates = {}
        if self.gate_weight is not None:
            gates = {
                "source_gate": products[o.order],
                "target_gate": products[o.order + 1],
                "edge_gate": self.gate_edge,
                "scale": o.gate_scale,
            }
        is_masked = o.combine == "add" or o.sigma != "identity"
        ends = None
        lam, sigma = self.decay_value(), NONLINEARITIES[o.sigma].value
        states = [products[0]]
        for j in range(1, o.order):
            factor = None if edges is None else edges[j - 1]
            c = sigma(states[-1])
            sums = self.sums(c, edge_index, edge_attr=edge_attr, factor=factor, **gates)
            if is_masked and ends is None:  # after the sums, which check the edges
                ends = walks_end(edge_index, x.shape[0], o.order)
            if lam is not None and not (self.decay_logit is None and o.decay == 1.0):
                sums = lam * sums
            c_new = sums * products[j] if o.combine == "multiply" else sums + products[j]
            states.append(c_new if ends is None else torch.where(ends[:, j, None], c_new, 0.0))
        return states


def draw(weight: Tensor) -> None:
    """Draw a weight from N(0, 1/fan_in), so that products have the scale of the input."""
    nn.init.normal_(weight, std=max(1, weight.shape[-1]) ** -0.5)
