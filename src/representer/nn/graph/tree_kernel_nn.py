"""The network of the tree kernel: a sum over the downward chains of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import check_integer
from representer.functional import NONLINEARITIES, child_positions
from representer.nn.graph.walks import DecayOption, GraphNetwork, GraphOptions, Walks, draw
from representer.nn.layer import HasKernel, check_flag, leaf_of_fx
from representer.nn.recurrent.sequence_layer import shows, with_defaults
from representer.ops import tree_scan
from representer.ops.held import HeldWalks

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)

TreeDecay = DecayOption | Literal["state"]


class TreeKernelNN(HasKernel["Kernel"], GraphNetwork):
    r"""The network of the tree kernel: unit i compares a tree with reference chain i.

    .. math::
        c_1[v] &= \sum_u \lambda_{uv} c_1[u] + W^{(1)} x_v \\
        c_j[v] &= \sum_u \lambda_{uv} c_j[u] + \sum_u c_{j-1}[u] \odot W^{(j)} x_v \\
        h_T &= c_n[\text{root}]

    over the children u of v. :math:`h_T[i]` is the tree kernel of order n between the tree and the
    path of the i-th rows of :math:`W^{(1)} \dots W^{(n)}`, the first of which is its deepest node:
    a sum over all chains of n nodes, each a descendant of the next, of the product of the inner
    products of their nodes with the reference, times :math:`\lambda` for each node on the way to
    the root that is not in the chain. Of several roots, the outputs are summed. On a path, this is
    ``nn.StringKernelRNN``.

    ``decay="gated"`` replaces λ by :math:`s\,\sigma(U[x_u, x_v] + b)`, and ``decay="state"`` by
    :math:`s\,\sigma(W x_v + U h_u + b)` with the child's state :math:`h_u`, c_n after the
    activation: of order 1, the memory of the child-sum Tree-LSTM with its input gate at 1 and the
    candidate W x.

    ``ordered=True`` multiplies each :math:`c_{j-1}[u]` by a learned weight of the position of u
    among the children of v. Initially they select the first child, as in the reference path.

    Args:
        in_channels: d, features of a node.
        hidden_channels: H, units.
        order: n, nodes of a chain and of a reference.
        decay: λ: ``"gated"``, ``"state"``, a non-negative number, or ``"learned"``, one number in
            (0, 1) per unit, initially 1/2.
        ordered: Compare the positions of children, which is their order in ``edge_index``.
        max_children: P, positions with a weight if ``ordered``; later children have the weight 0.
        activation: Activation of h_T, a name of ``functional.NONLINEARITIES``; None for none.
        gate_scale: s.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``, child and parent of each edge; batch ``(N,)``
        - returns ``(num_graphs, H)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (1)-(3), of which this is the counterpart for trees.
        Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory
        Networks, ACL 2015, (2)-(8).
    """

    @shows(GraphOptions)
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        order: int = 1,
        decay: TreeDecay = "gated",
        ordered: bool = False,
        max_children: int = 8,
        activation: str | None = None,
        **options: Unpack[GraphOptions],
    ) -> None:
        o = with_defaults(GraphOptions, options)
        names = ("learned", "gated", "state")
        walks = Walks.read(order, decay, None, o.gate_scale, decays=names)
        super().__init__(in_channels, hidden_channels, walks, activation)
        self.ordered = check_flag("ordered", ordered)
        self.max_children = check_integer("max_children", max_children)
        d, H, n = in_channels, hidden_channels, order

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=o.device, dtype=o.dtype)
            return nn.Parameter(empty) if used else None

        is_gated, sees_state = decay in ("gated", "state"), decay == "state"
        self.weight = nn.Parameter(torch.empty(n * H, d, device=o.device, dtype=o.dtype))
        self.position_weight = parameter((n - 1) * H, max_children, used=self.ordered and n > 1)
        self.decay_logit = parameter(H, used=decay == "learned")
        self.gate_weight = parameter((1 if sees_state else 2) * H, d, used=is_gated)
        self.gate_state = parameter(H, H, used=sees_state)
        self.gate_bias = parameter(H, used=is_gated)
        self.reset_parameters()

    @leaf_of_fx
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return h_T of each tree.

        Args:
            x: Features of the nodes.
            edge_index: Child and parent of each edge.
            batch: The tree of each node; a single one by default.
            batch_size: Number of trees; required by ``torch.compile`` with ``fullgraph=True``.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If a dtype or device is wrong.
            ArgumentError: If an edge joins a node that does not exist, a node has two parents, or
                the edges form a cycle.
        """
        edge_index, states = self._states(x, edge_index)
        is_inner = torch.zeros_like(states[:, -1, :1]).index_fill(0, edge_index[0], 1.0) > 0
        return self._read_out(torch.where(is_inner, 0.0, states[:, -1]), batch, batch_size)

    def node_states(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return c_1 … c_n of every node ``(N, n, H)``, the values of its subtree."""
        return self._states(x, edge_index)[1]

    def edge_decays(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return λ of every edge ``(E, H)``, of a gate its values for this input."""
        edge_index, states = self._states(x, edge_index)
        (child, parent), p = edge_index, self._operands(x, edge_index)
        if p["decay"] is not None:
            return p["decay"].expand(len(child), self.hidden_channels)
        z = p["target_gate"][parent]
        if p["source_gate"] is not None:
            z = z + p["source_gate"][child]
        if self.gate_state is not None:
            h = NONLINEARITIES[self.activation or "identity"].value(states[:, -1])
            z = z + F.linear(h[child], self.gate_state)
        return self.gate_scale * torch.sigmoid(z)

    def edge_factors(self, edge_index: Tensor, nodes: int) -> Tensor | None:
        """Return the weight of every edge as a step of the chain ``(E, n - 1, H)``; None for 1."""
        if self.position_weight is None:
            return None
        steps = self.order - 1, self.hidden_channels
        weights = F.pad(self.position_weight, (0, 1)).unflatten(0, steps)  # 0 for later children
        positions = child_positions(edge_index, nodes).clamp(max=self.max_children)
        return weights[..., positions].permute(2, 0, 1)

    def references(self) -> Tensor:
        """Return the reference chain of each unit ``(H, n, d)``, a view of the weights.

        The first node is the deepest. Modifying it in place changes the layer.
        """
        steps = self.order, self.hidden_channels
        return self.weight.detach().unflatten(0, steps).transpose(0, 1)

    def edge_references(self) -> Tensor | None:
        """Return the weights of the positions of children ``(H, n - 1, P)``; None if not ordered.

        They are a view, as the references.
        """
        if self.position_weight is None:
            return None
        steps = self.order - 1, self.hidden_channels
        return self.position_weight.detach().unflatten(0, steps).transpose(0, 1)

    def held_walks(
        self, x: Tensor, edge_index: Tensor, edge_attr: None, of_graph: Tensor, graphs: int
    ) -> list[HeldWalks]:
        """Return the held decays of a batch of trees, with the tree of each node ``(N,)``."""
        decays, positions = self.edge_decays(x, edge_index), None
        if self.position_weight is not None:
            ranks = child_positions(edge_index, len(x)).clamp(max=self.max_children)
            positions = F.one_hot(ranks, self.max_children + 1)[:, :-1].to(x)
        ones = torch.ones_like(decays)
        options = self.order, "multiply", "identity", decays
        return [HeldWalks(x, edge_index, ones, positions, of_graph, graphs, *options)]

    def unit_references(self) -> tuple[Tensor, ...]:
        """Return nodes ``(n, H, d)`` and, if ordered, weights of positions ``(n − 1, H, P)``."""
        n, H = self.order, self.hidden_channels
        nodes = self.weight.unflatten(0, (n, H))
        if self.position_weight is None:
            return (nodes,)
        return nodes, self.position_weight.unflatten(0, (n - 1, H))

    def not_linear(self) -> str:
        """Return "", since every unit is linear in the features of its reference."""
        return ""

    def decay_gate(self) -> Tensor | dict[str, Tensor]:
        """Return λ, ``()`` if it is constant, ``(H,)`` if learned; or the weights of its gate.

        The weights are a dict of ``"target"`` ``(H, d)`` of the parent, ``"source"`` ``(H, d)`` of
        the child or ``"state"`` ``(H, H)`` of its state, and ``"bias"`` ``(H,)``.
        """
        value = self._decay()
        if value is not None:
            return value.detach()
        assert self.gate_weight is not None
        assert self.gate_bias is not None
        names = ("target",) if self.gate_state is not None else ("source", "target")
        parts = self.gate_weight.detach().split(self.hidden_channels)
        weights: dict[str, Tensor] = dict(zip(names, parts, strict=True))
        if self.gate_state is not None:
            weights["state"] = self.gate_state.detach()
        return weights | {"bias": self.gate_bias.detach()}

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in); biases and logits are 0, first children selected."""
        for weight in (self.weight, self.gate_weight, self.gate_state):
            if weight is not None:
                draw(weight)
        for parameter in (self.gate_bias, self.decay_logit, self.position_weight):
            if parameter is not None:
                nn.init.zeros_(parameter)
        if self.position_weight is not None:
            nn.init.ones_(self.position_weight[:, 0])

    def _decay(self) -> Tensor | None:
        """Return λ ``()`` if it is constant or ``(H,)`` if learned; None for a gate."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        # not stored as a tensor, so that it is exact after conversion of the layer to float64
        return None if isinstance(self.decay, str) else self.weight.new_full((), self.decay)

    def _operands(self, x: Tensor, edge_index: Tensor) -> dict[str, Any]:
        """Return the operands of the recurrence that depend on the nodes."""
        n, H = self.order, self.hidden_channels
        weights, bias = self.weight, None
        if self.gate_weight is not None:
            weights = torch.cat((weights, self.gate_weight))
            assert self.gate_bias is not None
            bias = F.pad(self.gate_bias, (len(weights) - H, 0))
        # autocast may reduce the precision of products, but not of sums
        products = F.linear(x, weights, bias).to(self.weight.dtype).unflatten(1, (-1, H))
        return {
            "products": products[:, :n],
            "decay": self._decay(),
            "source_gate": products[:, n] if products.shape[1] == n + 2 else None,
            "target_gate": products[:, -1] if self.gate_weight is not None else None,
        }

    def _states(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """Check a call, and return the edges and c_1 … c_n of every node."""
        edge_index, _ = self._check(x, edge_index, None, self.weight)
        states = tree_scan(
            **self._operands(x, edge_index), edge_index=edge_index, state_gate=self.gate_state,
            factor=self.edge_factors(edge_index, len(x)), scale=self.gate_scale,
            activation=self.activation or "identity",
        )  # fmt: skip
        return edge_index, states
