"""Configuration of a graph regressor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from representer.errors import ArgumentError

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

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            self._require(name, type(value) is int and value >= 1, "a positive integer")
        is_size = self.edge_dim is None or (type(self.edge_dim) is int and self.edge_dim >= 1)
        self._require("edge_dim", is_size, "a positive integer, or None")
        for name, known in (("network", NETWORKS), ("readout", READOUTS), ("initial", INITIALS)):
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        is_decay = self.decay in ("learned", "gated") or (
            isinstance(self.decay, int | float) and 0 <= self.decay < math.inf
        )
        self._require("decay", is_decay, "a non-negative number, 'learned' or 'gated'")
        self._require("share_references", type(self.share_references) is bool, "True or False")
        can_differ = self.share_references or (self.network == "wl" and self.readout == "sum")
        expected = "True, except for network='wl' with readout='sum'"
        self._require("share_references", can_differ, expected)
        is_scale = 0 < self.gate_scale < math.inf
        self._require("gate_scale", is_scale, "a positive number")
        self._require("dropout", 0 <= self.dropout < 1, "a number in [0, 1)")

    def _require(self, name: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise ArgumentError(name, getattr(self, name), expected)
