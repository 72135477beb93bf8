"""The network of the random-walk kernel, L17 (6), (8), section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from representer.nn.checks import leaf_of_fx
from representer.nn.graph.graph_network import GraphNetwork, check_graph
from representer.nn.graph.graph_options import CombineOption, DecayOption, GraphOptions, Walks
from representer.nn.graph.walk_states import WalkStates
from representer.nn.has_kernel import HasKernel
from representer.nn.recurrent.options import shows, with_defaults

if TYPE_CHECKING:
    from representer.kernels import RandomWalkKernel  # noqa: F401 (named in a string)


class RandomWalkKernelNN(HasKernel["RandomWalkKernel"], GraphNetwork):
    r"""The network of the random-walk kernel: unit i compares a graph with reference walk i.

    .. math::
        c_1[v] &= W^{(1)} f_v \\
        c_j[v] &= \lambda \sum_{u \to v} c_{j-1}[u] \odot W^{(j)} f_v \\
        h_G &= \sum_v c_n[v]

    The reference of unit i is the directed path of n nodes whose features are the i-th rows of
    :math:`W^{(1)} \dots W^{(n)}`, and :math:`h_G[i]` is the random-walk kernel of order n between
    the graph and that path (Theorem 3): the sum over all walks of n nodes of the product of inner
    products of their nodes with those of the path, times :math:`\lambda^{n-1}`. With ``nonlinear``
    and ``combine``, the second line is replaced by (8),

    .. math::
        c_j[v] = W^{(j)} f_v \circ \lambda \sum_{u \to v} \sigma(c_{j-1}[u])

    which is 0 where no walk of j nodes ends (appendix E). With edge features e, the term of an edge
    is multiplied by :math:`R^{(j)} e_{uv}`. ``decay="gated"`` replaces λ by

    .. math::
        \lambda_{u,v} = s \, \sigma(U [f_u, f_v, e_{uv}] + b)

    (section 4), so each walk is weighted by the product of the gates of its edges.

    Args:
        in_channels: d, features of a node.
        hidden_channels: H, units.
        order: n, nodes of a walk and of a reference.
        decay: λ: a non-negative number; ``"learned"``, one number in (0, 1) per unit, initially
            1/2; ``"gated"``, a gate of each edge.
        combine: ∘, ``"multiply"`` or ``"add"``.
        nonlinear: σ in (8): False for none, True for tanh, or a name of
            ``functional.NONLINEARITIES``.
        edge_dim: K, features of an edge; None to ignore edge features.
        activation: Activation of h_G, a name of ``functional.NONLINEARITIES``; None for none.
        gate_scale: s; 10 in the authors' code, 1 in the paper.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Weights are initialized from N(0, 1/fan_in) and biases to 0; the authors' code limits the
    standard deviation to 1/10, so that for few features the products of walks are close to 0.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``; batch ``(N,)``
        - returns ``(num_graphs, H)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (5)-(8), Theorem 3, section 4, appendices D and E.
    """

    @shows(GraphOptions)
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        order: int = 2,
        decay: DecayOption = 1.0,
        combine: CombineOption = "multiply",
        nonlinear: bool | str = False,
        edge_dim: int | None = None,
        activation: str | None = None,
        **options: Unpack[GraphOptions],
    ) -> None:
        o = with_defaults(GraphOptions, options)
        walks = Walks.read(
            order, decay, edge_dim, o.gate_scale, combine=combine, nonlinear=nonlinear
        )
        super().__init__(in_channels, hidden_channels, walks, activation)
        self.nonlinear = nonlinear
        made = {"device": o.device, "dtype": o.dtype}
        self.walks = WalkStates(in_channels, hidden_channels, walks, **made)

    @leaf_of_fx
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return h_G of each graph.

        Args:
            x: Features of the nodes.
            edge_index: Source and target of each edge; messages go from source to target.
            edge_attr: Features of the edges, with ``edge_dim``.
            batch: The graph of each node; a single graph by default.
            batch_size: Number of graphs; required by ``torch.compile`` with ``fullgraph=True``.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If a dtype or device is wrong, or edge features are missing.
            ArgumentError: If an edge joins a node that does not exist.
        """
        last = self._states(x, edge_index, edge_attr)[-1]
        return self._read_out(last, batch, batch_size)

    def node_states(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Return c_1 … c_n of every node ``(N, n, H)``."""
        return torch.stack(self._states(x, edge_index, edge_attr), dim=1)

    def references(self) -> Tensor:
        """Return the reference walk of each unit ``(H, n, d)``, a view of the weights.

        Modifying it in place changes the layer; ``nn.path_graph`` converts a reference to a graph.
        """
        return self.walks.nodes.detach().transpose(0, 1)

    def edge_references(self) -> Tensor | None:
        """Return the edges of the references ``(H, n - 1, K)``, or None without ``edge_dim``."""
        edges = self.walks.edges
        return None if edges is None else edges.detach().transpose(0, 1)

    def decay_gate(self) -> Tensor | dict[str, Tensor]:
        """Return λ, ``()`` if it is constant, ``(H,)`` if learned; or the weights of its gate.

        The weights are a dict of ``"source"`` and ``"target"`` ``(H, d)``, of ``"edge"`` ``(H, K)``
        with ``edge_dim``, and of ``"bias"`` ``(H,)``.
        """
        value = self.walks.decay_value()
        if value is not None:
            return value.detach()
        w, gates = self.walks, self.walks.gates
        assert gates is not None
        assert w.gate_bias is not None
        weights = {"source": gates.detach()[0], "target": gates.detach()[1]}
        if w.gate_edge is not None:
            weights["edge"] = w.gate_edge.detach()
        return weights | {"bias": w.gate_bias.detach()}

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        self.walks.reset_parameters()

    def _states(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> list[Tensor]:
        edge_index, edges = check_graph(
            x, edge_index, edge_attr, channels=self.in_channels, edge_dim=self.edge_dim,
            like=self.walks.weight,
        )  # fmt: skip
        return self.walks(x, edge_index, edges)
