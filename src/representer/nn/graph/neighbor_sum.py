"""The sum over neighbors as a PyG module, for use with PyG's explainers."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn import MessagePassing

from representer.functional.walk_aggregate import walk_messages
from representer.ops import walk_aggregate


class NeighborSum(MessagePassing):
    """``ops.walk_aggregate``, or message passing in PyG while an explainer masks edges."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")

    def forward(
        self,
        nodes: Tensor,
        edge_index: Tensor,
        *,
        edge_attr: Tensor | None = None,
        shift: Tensor | None = None,
        factor: Tensor | None = None,
        source_gate: Tensor | None = None,
        target_gate: Tensor | None = None,
        edge_gate: Tensor | None = None,
        scale: float = 1.0,
        activation: str = "identity",
    ) -> Tensor:
        """Sum the messages to each node; arguments as in ``ops.walk_aggregate``."""
        if not self.explain:
            return walk_aggregate(
                nodes,
                edge_index,
                edge_attr=edge_attr,
                shift=shift,
                factor=factor,
                source_gate=source_gate,
                target_gate=target_gate,
                edge_gate=edge_gate,
                scale=scale,
                activation=activation,
            )
        return self.propagate(
            edge_index,
            nodes=nodes,
            edge_attr=edge_attr,
            shift=shift,
            factor=factor,
            source_gate=source_gate,
            target_gate=target_gate,
            edge_gate=edge_gate,
            scale=scale,
            activation=activation,
        )

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
        return walk_messages(
            nodes_j,
            edge_attr,
            shift,
            factor,
            source_gate_j,
            target_gate_i,
            edge_gate,
            scale,
            activation,
        )
