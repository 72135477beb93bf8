"""The networks of the deep graph kernel and of Weisfeiler-Lehman's, L17 sections 3.3 and 3.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.functional import NONLINEARITIES
from representer.nn.graph.walks import (
    CombineOption,
    DecayOption,
    GraphNetwork,
    GraphOptions,
    NeighborSum,
    RandomWalkKernelNN,
    Walks,
    WalkStates,
    check_graph,
    checked_name,
    draw,
)
from representer.nn.layer import HasKernel, leaf_of_fx
from representer.nn.recurrent.sequence_layer import shows, with_defaults
from representer.ops import walk_rounds
from representer.ops.held import HeldWalks

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)

# The network of the deep graph kernel, L17 section 3.3.


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
        edge_dim: K, features of an edge; None for edges without features.
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


# The generalized relabeling of the nodes of a graph, L17 (10).


class Relabeling(nn.Module):
    r"""Computes a new label of every node from its own label and those of its neighbors.

    .. math::
        r(v) = \sigma \Big( U_1 f_v + U_2 \sum_{u \to v} \sigma(V f_u + B e_{uv} + b) + b' \Big)

    (10), with the biases and edge features of the authors' code; or with ``combine="multiply"``, as
    (9) allows, :math:`\sigma((U_1 f_v + b') \odot U_2 \sum \dots)`. New labels have the same
    number of features, so relabeling can be repeated, as in
    ``kernels.WeisfeilerLehmanKernel(relabel=…)``.

    Args:
        channels: d, features of a label.
        edge_dim: K, features of an edge; None for edges without features.
        activation: σ, a name of ``functional.NONLINEARITIES``.
        bias: Add the biases b and b'.
        combine: ``"add"``, or ``"multiply"`` for the product.
        device: Device of the parameters.
        dtype: Dtype of the parameters.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``
        - returns ``(N, d)``

    Raises:
        ArgumentError: If an option has an invalid value.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (10).
    """

    def __init__(
        self,
        channels: int,
        edge_dim: int | None = None,
        activation: str = "relu",
        *,
        bias: bool = True,
        combine: CombineOption = "add",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if combine not in ("add", "multiply"):
            raise ArgumentError("combine", combine, "'add' or 'multiply'")
        self.combine = combine
        self.channels = check_integer("channels", channels)
        self.edge_dim = None if edge_dim is None else check_integer("edge_dim", edge_dim)
        checked_name("activation", activation)
        self.activation = activation

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if used else None

        d = channels
        self.weight = nn.Parameter(torch.empty(2 * d, d, device=device, dtype=dtype))  # V, U_1
        self.neighbors = nn.Parameter(torch.empty(d, d, device=device, dtype=dtype))  # U_2
        self.edge_weight = parameter(d, edge_dim or 0, used=edge_dim is not None)
        self.bias = parameter(2 * d, used=bias)  # b, b'
        self.sums = NeighborSum()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in), and set biases to 0."""
        for weight in (self.weight, self.neighbors, self.edge_weight):
            if weight is not None:
                draw(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @leaf_of_fx
    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Return the new labels."""
        edge_index, edges = check_graph(
            x, edge_index, edge_attr, channels=self.channels, edge_dim=self.edge_dim,
            like=self.weight,
        )  # fmt: skip
        sigma = NONLINEARITIES[self.activation].value
        products = F.linear(x, self.weight, self.bias).to(self.weight.dtype)
        inner, center = products.split(self.channels, dim=1)
        if self.edge_weight is None:
            sums = self.sums(sigma(inner), edge_index)
        else:
            sums = self.sums(
                inner, edge_index, edge_attr=edges, shift=self.edge_weight,
                activation=self.activation,
            )  # fmt: skip
        around = F.linear(sums, self.neighbors)
        return sigma(center + around if self.combine == "add" else center * around)

    def extra_repr(self) -> str:
        """Return the arguments."""
        edges = "" if self.edge_dim is None else f", edge_dim={self.edge_dim}"
        product = "" if self.combine == "add" else ", combine='multiply'"
        return f"{self.channels}{edges}, activation={self.activation!r}{product}"


class RowBatchNorm(nn.BatchNorm1d):
    """Batch normalization, which standardizes a batch of a single row as in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the standardized rows ``(N, d)``."""
        if self.training and len(input) > 1:
            return super().forward(input)
        constants = self.running_mean, self.running_var, self.weight, self.bias
        return F.batch_norm(input, *constants, training=False, eps=self.eps)


class WLKernelNN(HasKernel["Kernel"], GraphNetwork):
    r"""The network of the Weisfeiler-Lehman kernel with random walks as its base kernel.

    .. math::
        c_1^{(l)}[v] &= W^{(1)} h_v^{(l-1)}, \qquad h_v^{(0)} = f_v \\
        c_j^{(l)}[v] &= \lambda \sum_{u \to v} c_{j-1}^{(l)}[u] \odot W^{(j)} h_v^{(l-1)} \\
        h_v^{(l)} &= r(v) = \sigma \Big( U_1 h_v^{(l-1)}
            + U_2 \sum_{u \to v} \sigma(V h_u^{(l-1)}) \Big) \\
        h_G &= \sum_{l=1}^L \sum_v c_n^{(l)}[v]

    Level l uses the graph after l − 1 relabelings, so h_G is the sum over relabelings 0 … L − 1.
    For each, the sum over v is the random-walk kernel with the reference walk, and :math:`h_G`
    lies in the space of ``kernels.WeisfeilerLehmanKernel`` of depth L − 1 (Proposition 2).
    Edge features, the decay and its gate are as in :class:`~representer.nn.RandomWalkKernelNN`;
    the relabeling is :class:`~representer.nn.Relabeling`. The authors' code corresponds to
    ``readout="last", gate_scale=10.0, sigma="relu"``.

    Args:
        in_channels: d, features of a node.
        hidden_channels: H, units.
        depth: L, levels.
        order: n, nodes of a walk and of a reference.
        decay: λ: a non-negative number, ``"learned"`` or ``"gated"``.
        edge_dim: K, features of an edge; None for edges without features.
        readout: ``"sum"`` over the levels (the paper), or the ``"last"`` level (the authors' code).
        activation: Activation of h_G, a name of ``functional.NONLINEARITIES``; None for none.
        label_channels: Features of a label, H by default; the first labels are
            :math:`h_v^{(0)} = \sigma(A f_v)`. With 0 they are the features of the nodes, as above.
        share_references: Use the same references at all levels, as in the authors' code, instead of
            separate ones, as in the paper.
        sigma: σ, a name of ``functional.NONLINEARITIES``; labels of a bounded one do not grow.
        bias: Add biases to the relabeling.
        relabel_combine: ∘ of the relabeling, see :class:`Relabeling`.
        normalize: Standardize the labels of each level over a batch of nodes, since sums over
            neighbors grow from level to level.
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
        (9)-(11), section 3.4, Proposition 2, section 4.
    """

    has_default_base = False  # True for the network of a kernel without a base

    @shows(GraphOptions)
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        depth: int = 4,
        order: int = 2,
        decay: DecayOption = 1.0,
        edge_dim: int | None = None,
        readout: Literal["sum", "last"] = "sum",
        activation: str | None = None,
        *,
        label_channels: int | None = None,
        share_references: bool = True,
        sigma: str = "tanh",
        bias: bool = True,
        relabel_combine: CombineOption = "add",
        normalize: bool = False,
        **options: Unpack[GraphOptions],
    ) -> None:
        o = with_defaults(GraphOptions, options)
        walks = Walks.read(order, decay, edge_dim, o.gate_scale)
        super().__init__(in_channels, hidden_channels, walks, activation)
        self.depth = check_integer("depth", depth)
        if readout not in ("sum", "last"):
            raise ArgumentError("readout", readout, "'sum' or 'last'")
        self.readout, self.sigma, self.bias = readout, sigma, bias
        self.relabel_combine = relabel_combine
        self.share_references, self.normalize = share_references, normalize
        self.label_channels = hidden_channels if label_channels is None else label_channels
        channels, made = in_channels, {"device": o.device, "dtype": o.dtype}
        self.embedding = None
        if self.label_channels != 0:
            channels = check_integer("label_channels", self.label_channels)
            self.embedding = nn.Parameter(torch.empty(channels, in_channels, **made))  # A
            draw(self.embedding)
        self.relabeling = Relabeling(
            channels, self.edge_dim, sigma, bias=bias, combine=relabel_combine, **made
        )
        self.walks = nn.ModuleList(
            WalkStates(channels, hidden_channels, walks, **made)
            for _ in range(1 if share_references else depth)
        )
        count = depth if normalize else 0
        self.norms = nn.ModuleList(RowBatchNorm(channels, **made) for _ in range(count))

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
        if self._is_joined():
            total = self._joined(x, edge_index, edge_attr)
        else:
            levels = self._levels(x, edge_index, edge_attr, self.read_levels)
            total = levels[0][-1]
            for states in levels[1:]:
                total = total + states[-1]
        return self._read_out(total, batch, batch_size)

    def by_level(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the terms of the sum over the levels ``(num_graphs, levels · H)``."""
        levels = self._levels(x, edge_index, edge_attr, self.read_levels)
        return self._read_out(torch.cat([states[-1] for states in levels], 1), batch, batch_size)

    def node_states(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        level: int | None = None,
    ) -> Tensor:
        """Return c_1 … c_n of every node ``(N, n, H)`` after ``level`` relabelings, 0 … L − 1.

        By default, the sum over the levels of the read-out is returned.
        """
        levels = self.read_levels if level is None else (range(self.depth)[level],)
        states = self._levels(x, edge_index, edge_attr, levels)
        return sum((torch.stack(of, dim=1) for of in states[1:]), torch.stack(states[0], dim=1))

    def labels(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, level: int = 0
    ) -> Tensor:
        """Return the labels h of every node after ``level`` relabelings."""
        edge_index, edges = self._check(x, edge_index, edge_attr, self.relabeling.weight)
        h = self._first(x)
        for number in range(1, level + 1):
            h = self._next(h, number, edge_index, edges)
        return h

    def references(self, level: int = 0) -> Tensor:
        """Return the reference walk of each unit ``(H, n, d)``, a view of the weights.

        They are walks of labels, which are node features if ``label_channels`` is 0.
        """
        return self.level_walks(level).nodes.detach().transpose(0, 1)

    def edge_references(self, level: int = 0) -> Tensor | None:
        """Return the edges of the references ``(H, n - 1, K)``, or None without ``edge_dim``."""
        edges = self.level_walks(level).edges
        return None if edges is None else edges.detach().transpose(0, 1)

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        if self.embedding is not None:
            draw(self.embedding)
        self.relabeling.reset_parameters()
        for norm in self.norms:
            cast(RowBatchNorm, norm).reset_parameters()
        for walks in self.walks:
            cast(WalkStates, walks).reset_parameters()

    def held_walks(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, of_graph: Tensor, graphs: int
    ) -> list[HeldWalks]:
        """Return the held gates of every level of the read-out; see ``RandomWalkKernelNN``."""
        edge_index, edges = self._check(x, edge_index, edge_attr, self.relabeling.weight)
        h, held = self._first(x), []
        for level in range(self.depth):
            h = self._next(h, level, edge_index, edges) if level else h
            if level in self.read_levels:
                held.append(self.level_walks(level).held(h, edge_index, edges, of_graph, graphs))
        return held

    def unit_references(self) -> tuple[Tensor, ...]:
        """Return nodes and edges of the references, with an axis of the levels if they differ."""
        parts = [self.level_walks(level).unit_references() for level in self.read_levels]
        if self.share_references or len(parts) == 1:
            return parts[0]
        return tuple(torch.stack(levels) for levels in zip(*parts, strict=True))

    def not_linear(self) -> str:
        """Return "", since every unit is linear in the features of its reference."""
        return ""

    @property
    def read_levels(self) -> tuple[int, ...]:
        """The levels of the read-out."""
        return tuple(range(self.depth)) if self.readout == "sum" else (self.depth - 1,)

    def level_walks(self, level: int) -> WalkStates:
        """Return the walks of a level, which all levels share with ``share_references``."""
        return cast(WalkStates, self.walks[0 if self.share_references else level])

    def _first(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            h = F.linear(x, self.embedding).to(self.embedding.dtype)
            x = NONLINEARITIES[self.sigma].value(h)
        return self.norms[0](x) if self.normalize else x

    def _next(self, h: Tensor, level: int, edge_index: Tensor, edges: Tensor | None) -> Tensor:
        """Return the labels of a level from those of the level before it."""
        h = self.relabeling(h, edge_index, edges)
        return self.norms[level](h) if self.normalize else h

    def _is_joined(self) -> bool:
        """Return True if ``ops.walk_rounds`` can compute the layer, with fewer, larger products."""
        walks, r = self.level_walks(0), self.relabeling
        is_explained = any(  # which masks messages, or reads them by hooks
            sums.explain or sums._forward_hooks for sums in (walks.sums, r.sums)
        )
        is_sum = r.combine == "add" and self.share_references and not self.normalize
        return is_sum and self.edge_dim is not None and not is_explained

    def _joined(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return c_n of every node, summed over the levels of the read-out."""
        edge_index, edges = self._check(x, edge_index, edge_attr, self.relabeling.weight)
        walks, r = self.level_walks(0), self.relabeling
        assert edges is not None
        assert r.edge_weight is not None
        references = walks.edges
        assert references is not None
        weights: list[Tensor] = [r.weight, walks.weight]
        bias = r.weight.new_zeros(2 * r.channels) if r.bias is None else r.bias
        biases = [bias, r.weight.new_zeros(len(weights[1]))]
        if walks.gate_weight is not None and walks.gate_bias is not None:
            weights.append(walks.gate_weight)
            biases += [torch.zeros_like(walks.gate_bias), walks.gate_bias]
        total = walk_rounds(
            self._first(x), edge_index, edges, torch.cat(weights), torch.cat(biases),
            r.neighbors, r.edge_weight, references, walks.gate_edge, depth=self.depth,
            first=self.read_levels[0], scale=self.gate_scale, activation=self.sigma,
        )  # fmt: skip
        lam = None if self.decay == 1.0 else walks.decay_value()
        return total if lam is None else lam ** (self.order - 1) * total

    def _levels(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, levels: tuple[int, ...]
    ) -> list[list[Tensor]]:
        """Return c_1 … c_n of the requested levels, in ascending order."""
        edge_index, edges = self._check(x, edge_index, edge_attr, self.relabeling.weight)
        states_by_level, h = [], self._first(x)
        for level in range(levels[-1] + 1):
            if level:
                h = self._next(h, level, edge_index, edges)
            if level in levels:
                states_by_level.append(self.level_walks(level)(h, edge_index, edges))
        return states_by_level
