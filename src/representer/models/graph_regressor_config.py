"""Configuration of a graph regressor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from representer.models.config import require_sizes
from representer.requirements import require, require_choices, require_fractions

NETWORKS = ("wl", "random-walk", "gine")
READOUTS = ("sum", "last")
INITIALS = ("authors", "fan-in")
_SIZES = ("in_channels", "outputs", "hidden_size", "depth", "order")


@dataclass(frozen=True)
class GraphRegressorConfig:
    """The configuration of `GraphRegressor`; the defaults are those of L17's code.

    Args:
        in_channels: Features of a node.
        outputs: Number of outputs per graph.
        edge_dim: Features of an edge; None to ignore edge features.
        network: ``"wl"``, ``"random-walk"``, or the baseline ``"gine"``.
        hidden_size: H, units of the network and of the hidden layer.
        depth: L, levels of ``"wl"`` and layers of ``"gine"``.
        order: n, nodes of a walk.
        decay: λ, a non-negative number, ``"learned"`` or ``"gated"``.
        readout: For ``"wl"``: ``"sum"`` over the levels (the paper) or the ``"last"`` (the code).
        gate_scale: Value of an open gate; 1 in the paper.
        share_references: For ``"wl"``: the same references at all levels (the code), or separate
            ones (the paper), which need ``readout="sum"``.
        initial: ``"authors"`` draws weights from N(0, min(1/√fan_in, 1/10)²), with biases of 0;
            ``"fan-in"`` keeps the initialization of the layers, N(0, 1/fan_in).
        dropout: Dropout before the last layer.
        compress: Apply asinh to h_G before the hidden layer: sums over neighbors grow with a power
            of the degree, so that dense graphs would make the outputs and the loss huge.

    Raises:
        ArgumentError: If a value is out of range.
    """

    in_channels: int
    outputs: int = 1
    edge_dim: int | None = 6
    network: str = "wl"
    hidden_size: int = 175
    depth: int = 4
    order: int = 2
    decay: float | str = "gated"
    readout: Literal["sum", "last"] = "last"
    gate_scale: float = 10.0
    share_references: bool = True
    initial: str = "authors"
    dropout: float = 0.0
    compress: bool = False

    def __post_init__(self) -> None:
        require_sizes(self, *_SIZES)
        is_size = self.edge_dim is None or (type(self.edge_dim) is int and self.edge_dim >= 1)
        require(self, "edge_dim", is_size, "a positive integer, or None")
        require_choices(self, network=NETWORKS, readout=READOUTS, initial=INITIALS)
        is_decay = self.decay in ("learned", "gated") or (
            isinstance(self.decay, int | float) and 0 <= self.decay < math.inf
        )
        require(self, "decay", is_decay, "a non-negative number, 'learned' or 'gated'")
        for name in ("share_references", "compress"):
            require(self, name, type(getattr(self, name)) is bool, "True or False")
        can_differ = self.share_references or (self.network == "wl" and self.readout == "sum")
        expected = "True, except for network='wl' with readout='sum'"
        require(self, "share_references", can_differ, expected)
        is_scale = 0 < self.gate_scale < math.inf
        require(self, "gate_scale", is_scale, "a positive number")
        require_fractions(self, "dropout")
