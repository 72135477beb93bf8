"""The network of the deep graph kernel, L17 section 3.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import check_integer
from representer.functional import NONLINEARITIES
from representer.nn.checks import leaf_of_fx
from representer.nn.graph.walks import (
    CombineOption,
    DecayOption,
    GraphNetwork,
    GraphOptions,
    RandomWalkKernelNN,
    Walks,
    WalkStates,
    draw,
)
from representer.nn.has_kernel import HasKernel
from representer.nn.recurrent.sequence_layer import shows, with_defaults

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)


class DeepGraphKernelNN(HasKernel["Kernel"], GraphNetwork):
    r"""A stack of graph-kernel layers.

    .. math::
        c_1^{(l)}[v] &= W^{(l,1)} h^{(l-1)}[v], \qquad h^{(0)}[v] = f_v \\
        c_j^{(l)}[v] &= W^{(l,j)} h^{(l-1)}[v] \circ \lambda
            \sum_{u \to v} \sigma(c_{j-1}^{(l)}[u]) \\
        h^{(l)}[v] &= \sigma(U^{(l)} c_n^{(l)}[v]), \qquad h_G = \sum_v h^{(L)}[v]

    The states of layer l lie in the space of ``kernels.DeepGraphKernel`` of l layers, if the space
    of its activation contains σ (Theorem 4). Edge features and gates are as in
    :class:`~representer.nn.RandomWalkKernelNN`; states are 0 where no walk of j nodes ends.

    Args:
        in_channels: d, features of a node.
        hidden_channels: H, units of every layer.
        order: n, nodes of a walk.
        decay: λ of each layer: a non-negative number, ``"learned"`` or ``"gated"``.
        combine: ∘, ``"add"``, or ``"multiply"`` for products as in the equations of L17.
        nonlinear: σ: True for tanh, False for none, or a name of ``functional.NONLINEARITIES``.
        edge_dim: K, features of an edge; None to ignore edge features.
        activation: Activation of h_G, a name of ``functional.NONLINEARITIES``; None for none.
        num_layers: L.
        gate_scale: Value of an open gate.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``; batch ``(N,)``
        - returns ``(num_graphs, H)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 3.3, Theorem 4, appendix E.
    """

    @shows(GraphOptions)
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        order: int = 2,
        decay: DecayOption = 1.0,
        combine: CombineOption = "add",
        nonlinear: bool | str = True,
        edge_dim: int | None = None,
        activation: str | None = None,
        num_layers: int = 2,
        **options: Unpack[GraphOptions],
    ) -> None:
        o = with_defaults(GraphOptions, options)
        walks = Walks.read(
            order, decay, edge_dim, o.gate_scale, combine=combine, nonlinear=nonlinear
        )
        super().__init__(in_channels, hidden_channels, walks, activation)
        self.num_layers, self.nonlinear = check_integer("num_layers", num_layers), nonlinear
        made = {"device": o.device, "dtype": o.dtype}
        self.walks = nn.ModuleList(
            WalkStates(hidden_channels if layer else in_channels, hidden_channels, walks, **made)
            for layer in range(num_layers)
        )
        shape = hidden_channels, hidden_channels
        self.mixing = nn.ParameterList(torch.empty(shape, **made) for _ in self.walks)  # U
        self._draw_mixing()

    @leaf_of_fx
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return h_G of each graph; arguments and errors as in ``RandomWalkKernelNN``."""
        *_, h = self._layers(x, edge_index, edge_attr)[-1]
        return self._read_out(h, batch, batch_size)

    def node_states(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, layer: int = -1
    ) -> Tensor:
        """Return c_1 … c_n of every node in a layer ``(N, n, H)``, by default the last."""
        *states, _ = self._layers(x, edge_index, edge_attr)[layer]
        return torch.stack(states, dim=1)

    def references(self, layer: int = 0) -> Tensor:
        """Return a view of the weights of each unit of a layer ``(H, n, d)``.

        In the first layer, these are the reference walks; in others the shape is ``(H, n, H)``.
        """
        walks = cast(WalkStates, self.walks[layer])
        return walks.nodes.detach().transpose(0, 1)

    def labels(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, layer: int = -1
    ) -> Tensor:
        """Return h of every node ``(N, H)`` that a layer reads, by default the last."""
        number = range(self.num_layers)[layer]
        return self._layers(x, edge_index, edge_attr)[number - 1][-1] if number else x

    def part(self, layer: int) -> RandomWalkKernelNN:
        """Return the walks of a layer, before U and σ, as a network that shares its parameters."""
        o, walks = self.options, cast(WalkStates, self.walks[layer])
        unit = RandomWalkKernelNN(
            walks.weight.shape[1], self.hidden_channels, o.order, o.decay, o.combine, o.sigma,
            o.edge_dim, gate_scale=o.gate_scale, device="meta",
        )  # fmt: skip
        unit.walks = walks
        return unit

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        self._draw_mixing()
        for walks in self.walks:
            cast(WalkStates, walks).reset_parameters()

    def _draw_mixing(self) -> None:
        with torch.no_grad():
            drawn = torch.stack(list(self.mixing))
            draw(drawn)
            for mixing, matrix in zip(self.mixing, drawn, strict=True):
                mixing.copy_(matrix)

    def _layers(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None
    ) -> list[list[Tensor]]:
        """Return c_1 … c_n and h of every layer."""
        first = cast(WalkStates, self.walks[0])
        edge_index, edges = self._check(x, edge_index, edge_attr, first.weight)
        sigma, layers, h = NONLINEARITIES[self.options.sigma].value, [], x
        for walks, mixing in zip(self.walks, self.mixing, strict=True):
            states = walks(h, edge_index, edges)
            h = sigma(F.linear(states[-1], mixing).to(mixing.dtype))
            layers.append([*states, h])
        return layers
