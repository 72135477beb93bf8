"""The base class of graph-kernel networks."""

from __future__ import annotations

import inspect

from torch import Tensor, nn

from representer.functional import NONLINEARITIES
from representer.nn.graph.graph_inputs import sum_of_graphs
from representer.nn.graph.graph_options import CombineOption, DecayOption, Walks, checked_name
from representer.nn.recurrent.options import check_size

_UNSHOWN = ("self", "in_channels", "hidden_channels", "device", "dtype")


class GraphNetwork(nn.Module):
    """Base class of graph-kernel networks: sizes, options, and the sum over each graph."""

    def __init__(
        self, in_channels: int, hidden_channels: int, options: Walks, activation: str | None
    ) -> None:
        super().__init__()
        self.in_channels = check_size("in_channels", in_channels)
        self.hidden_channels = check_size("hidden_channels", hidden_channels)
        self.options, self.activation = options, activation
        checked_name("activation", activation)

    @property
    def order(self) -> int:
        """n, nodes of a walk."""
        return self.options.order

    @property
    def decay(self) -> DecayOption:
        """λ: a number, ``"learned"`` or ``"gated"``."""
        return self.options.decay

    @property
    def combine(self) -> CombineOption:
        """Operation that extends a walk by a node."""
        return self.options.combine

    @property
    def edge_dim(self) -> int | None:
        """K, features of an edge, or None."""
        return self.options.edge_dim

    @property
    def gate_scale(self) -> float:
        """Value of an open gate."""
        return self.options.gate_scale

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        shown = [f"{self.in_channels}, {self.hidden_channels}"]
        for name, parameter in inspect.signature(type(self).__init__).parameters.items():
            if name not in _UNSHOWN and getattr(self, name) != parameter.default:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)

    def _read_out(self, states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        """Return the sum of the nodes of each graph, after the activation."""
        final = NONLINEARITIES[self.activation or "identity"]
        return final.value(sum_of_graphs(states, batch, batch_size))
