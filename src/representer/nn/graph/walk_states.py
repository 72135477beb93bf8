"""One chain c_1 … c_n of a graph layer: its references, its decay, and its run.

c_j[v] = p_j[v] o lam sum_{u -> v} sigma(c_{j-1}[u]) * R^(j) e_uv          L17 (6), (8), section 4
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import NONLINEARITIES, walks_end
from representer.nn.graph.graph_options import CombineOption, DecayOption
from representer.nn.graph.neighbor_sum import NeighborSum


class WalkStates(nn.Module):
    """References and decay of a chain.

    Args:
        in_channels: I, features of a node.
        hidden_channels: H.
        order: n.
        decay: As ``RandomWalkKernelNN`` takes it.
        combine: As ``RandomWalkKernelNN`` takes it.
        sigma: Name of σ.
        edge_dim: K, or None.
        gate_scale: What an open gate lets through.
        device: Of the parameters.
        dtype: Of the parameters.

    Attributes:
        weight: The references, node by node ``(n, H, I)``.
        edge_weight: Their edges ``(n - 1, H, K)``, or None.
        decay_logit: σ^{−1} of a learned decay ``(H,)``, or None.
        gate_weight: Of source and target, output by input ``(2, H, I)``, or None.
        gate_edge: ``(H, K)``, or None.
        gate_bias: ``(H,)``, or None.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        *,
        order: int,
        decay: DecayOption,
        combine: CombineOption,
        sigma: str,
        edge_dim: int | None,
        gate_scale: float,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.order, self.decay, self.combine, self.sigma = order, decay, combine, sigma
        self.gate_scale = gate_scale

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if used else None

        H, K, is_gated = hidden_channels, edge_dim or 0, decay == "gated"
        self.weight = nn.Parameter(torch.empty(order, H, in_channels, device=device, dtype=dtype))
        self.edge_weight = parameter(order - 1, H, K, used=edge_dim is not None)
        self.decay_logit = parameter(H, used=decay == "learned")
        self.gate_weight = parameter(2, H, in_channels, used=is_gated)
        self.gate_edge = parameter(H, K, used=is_gated and edge_dim is not None)
        self.gate_bias = parameter(H, used=is_gated)
        self.sums = NeighborSum()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in); biases and logits are 0."""
        for weight in (self.weight, self.edge_weight, self.gate_weight, self.gate_edge):
            if weight is not None:
                draw(weight)
        for parameter in (self.gate_bias, self.decay_logit):
            if parameter is not None:
                nn.init.zeros_(parameter)

    def decay_value(self) -> Tensor | None:
        """Return λ where it is no gate: ``()`` if it is constant, ``(H,)`` if learned."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        # made here and not kept, so that a layer brought to float64 has all digits of it
        return None if isinstance(self.decay, str) else self.weight.new_full((), self.decay)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> list[Tensor]:
        """Return c_1 … c_n of every node, each ``(N, H)``."""
        order, H, _ = self.weight.shape
        weights, bias = self.weight.flatten(0, 1), None
        if self.gate_weight is not None:
            weights = torch.cat((weights, self.gate_weight.flatten(0, 1)))
            assert self.gate_bias is not None
            bias = F.pad(self.gate_bias, ((order + 1) * H, 0))
        # autocast may halve products, not the sums
        products = F.linear(x, weights, bias).to(self.weight.dtype).split(H, dim=1)
        gates = {}
        if self.gate_weight is not None:
            gates = {
                "source_gate": products[order],
                "target_gate": products[order + 1],
                "edge_gate": self.gate_edge,
                "scale": self.gate_scale,
            }
        is_masked = self.combine == "add" or self.sigma != "identity"
        ends = walks_end(edge_index, len(x), order) if is_masked else None
        lam, sigma = self.decay_value(), NONLINEARITIES[self.sigma].value
        states = [products[0]]
        for j in range(1, order):
            sums = self.sums(
                sigma(states[-1]),
                edge_index,
                edge_attr=edge_attr,
                factor=None if self.edge_weight is None else self.edge_weight[j - 1],
                **gates,
            )
            if lam is not None and not (self.decay_logit is None and self.decay == 1.0):
                sums = lam * sums
            fresh = sums * products[j] if self.combine == "multiply" else sums + products[j]
            states.append(fresh if ends is None else torch.where(ends[:, j, None], fresh, 0.0))
        return states


def draw(weight: Tensor) -> None:
    """Fill a weight from N(0, 1/fan_in), so that products are of the size of the input."""
    nn.init.normal_(weight, std=max(1, weight.shape[-1]) ** -0.5)
