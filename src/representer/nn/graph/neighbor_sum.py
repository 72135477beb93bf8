"""The sum over neighbors as a PyG module, for use with PyG's explainers."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.nn import MessagePassing

from representer.functional.walk_aggregate import walk_messages
from representer.ops import walk_aggregate

_TENSORS = ("edge_attr", "shift", "factor", "source_gate", "target_gate", "edge_gate")
_DEFAULTS = dict.fromkeys(_TENSORS) | {"scale": 1.0, "activation": "identity"}


class NeighborSum(MessagePassing):
    """``ops.walk_aggregate``, or message passing in PyG while an explainer masks edges."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")

    def forward(self, nodes: Tensor, edge_index: Tensor, **operands: Any) -> Tensor:
        """Sum the messages to each node; arguments as in ``ops.walk_aggregate``."""
        if not self.explain:
            return walk_aggregate(nodes, edge_index, **operands)
        return self.propagate(edge_index, nodes=nodes, **_DEFAULTS | operands)

    def message(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        nodes_j: Tensor,
        edge_attr: Tensor | None,
        shift: Tensor | None,
        factor: Tensor | None,
        source_gate_j: Tensor | None,
        target_gate_i: Tensor | None,
        edge_gate: Tensor | None,
        scale: float,
        activation: str,
    ) -> Tensor:
        """Return the message of each edge."""
        gates = source_gate_j, target_gate_i, edge_gate
        return walk_messages(nodes_j, edge_attr, shift, factor, *gates, scale, activation)
