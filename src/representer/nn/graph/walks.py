"""The network of the random-walk kernel, L17 (6), (8), and what all graph-kernel networks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from representer.checks import SuggestsArguments, check_integer, is_number
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import NONLINEARITIES, nonlinearity, walks_end
from representer.functional.walks import edges_of, walk_messages
from representer.nn.layer import HasKernel, check_dense, leaf_of_fx, shown_arguments
from representer.nn.recurrent.sequence_layer import Default, shows, with_defaults
from representer.ops import walk_aggregate
from representer.ops.common import add_rows, check_like, wrong_device
from representer.ops.held import HeldWalks

if TYPE_CHECKING:
    from representer.kernels import Kernel  # noqa: F401 (named in a string)


# The options of the graph layers, and their checks.

DecayOption = float | Literal["learned", "gated"]
CombineOption = Literal["multiply", "add"]


class GraphOptions(TypedDict, total=False):
    """Options of all graph-kernel networks, described in their classes."""

    gate_scale: Annotated[float, Default(1.0)]
    device: Annotated[torch.device | str | None, Default(None)]
    dtype: Annotated[torch.dtype | None, Default(None)]


@dataclass(frozen=True)
class Walks:
    """The reference walks of a layer, without their weights."""

    order: int  # n, nodes of a walk
    decay: DecayOption  # λ
    combine: CombineOption  # operation that extends a walk by a node
    sigma: str  # name of σ between the steps of a walk
    edge_dim: int | None  # K, features of an edge
    gate_scale: float  # value of an open gate

    @classmethod
    def read(
        cls, order: Any, decay: Any, edge_dim: Any, gate_scale: float, *, combine: Any = "multiply",
        nonlinear: Any = False, decays: tuple[str, ...] = ("learned", "gated"),
    ) -> Walks:  # fmt: skip
        """Check the options of a network; `ArgumentError` if one is invalid."""
        edges = None if edge_dim is None else check_integer("edge_dim", edge_dim)
        if combine not in ("multiply", "add"):
            raise ArgumentError("combine", combine, "'multiply' or 'add'")
        if isinstance(nonlinear, bool):
            nonlinear = "tanh" if nonlinear else "identity"
        sigma = checked_name("nonlinear", nonlinear)
        size = check_integer("order", order)
        return cls(size, check_decay(decay, decays), combine, sigma, edges, gate_scale)


def check_decay(decay: Any, names: tuple[str, ...] = ("learned", "gated")) -> Any:
    """Return the decay if it is valid."""
    if is_number(decay) and 0 <= decay < float("inf"):
        return float(decay)
    if isinstance(decay, str) and decay in names:
        return decay
    *others, last = map(repr, names)
    expected = f"a non-negative number, {', '.join(others)} or {last}"
    raise ArgumentError("decay", decay, expected)


def checked_name(name: str, value: Any) -> str:
    """Return the name of a nonlinearity; the identity for None."""
    if value is None:
        return "identity"
    if not isinstance(value, str):
        raise ArgumentError(name, value, "a name of functional.NONLINEARITIES")
    nonlinearity(value, name)
    return value


class GraphNetwork(SuggestsArguments, nn.Module):
    """Base class of graph-kernel networks: sizes, options, and the sum over each graph."""

    instead: ClassVar[Mapping[str, str]] = {
        "out_channels": "did you mean 'hidden_channels'?",
        "edge_channels": "did you mean 'edge_dim'?",
    }

    def __init__(
        self, in_channels: int, hidden_channels: int, options: Walks, activation: str | None
    ) -> None:
        super().__init__()
        self.in_channels = check_integer("in_channels", in_channels)
        self.hidden_channels = check_integer("hidden_channels", hidden_channels)
        self.options, self.activation = options, activation
        self.order, self.decay, self.combine = options.order, options.decay, options.combine
        self.edge_dim, self.gate_scale = options.edge_dim, options.gate_scale
        checked_name("activation", activation)

    def _check(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, like: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        sizes: Any = {"channels": self.in_channels, "edge_dim": self.edge_dim}
        return check_graph(x, edge_index, edge_attr, like=like, **sizes)

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        return shown_arguments(self, "in_channels", "hidden_channels", apart={})

    def _read_out(self, states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        """Return the sum of the nodes of each graph, after the activation."""
        final = NONLINEARITIES[self.activation or "identity"]
        return final.value(sum_of_graphs(states, batch, batch_size))


def check_graph(
    x: Tensor, edge_index: Any, edge_attr: Tensor | None, *, channels: int, edge_dim: int | None,
    like: Tensor,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Check nodes and edges, and return the edges and, if the layer uses them, their features.

    ``edge_index`` may be a sparse adjacency, see ``functional.graph_walk.edges_of``, if the layer
    has no edge features.
    """
    check_dense(x, f"a tensor (nodes, {channels})", "x")
    if x.dim() != 2 or x.shape[1] != channels:
        raise ShapeError("x", x.shape, f"(nodes, {channels}), the layer's in_channels")
    check_like("x", x, like, tuple(x.shape))
    is_sparse = isinstance(edge_index, Tensor) and edge_index.layout != torch.strided
    if is_sparse or hasattr(edge_index, "to_torch_sparse_coo_tensor"):
        if edge_dim is not None:
            expected = f"a tensor (2, edges) with edge_attr, as the layer has edge_dim={edge_dim}"
            raise KindError("edge_index", "a sparse adjacency", expected)
        edge_index = edges_of(edge_index, x.shape[0])
    if not isinstance(edge_index, Tensor):
        raise KindError("edge_index", type(edge_index).__name__, "a tensor (2, edges)")
    if edge_index.dtype == torch.int32:
        edge_index = edge_index.long()
    _check_edge_index(edge_index, x)
    if edge_dim is None:
        refuse_edges(edge_attr)
        return edge_index, None
    if edge_attr is None:
        expected = f"a tensor (edges, {edge_dim}), as the layer has edge_dim={edge_dim}"
        raise KindError("edge_attr", "None", expected)
    if edge_attr.dim() == 1 and edge_dim == 1:
        edge_attr = edge_attr[:, None]
    check_like("edge_attr", edge_attr, like, (edge_index.shape[1], edge_dim))
    return edge_index, edge_attr


def refuse_edges(edge_attr: Tensor | None) -> None:
    """Refuse features of edges, which a layer without ``edge_dim`` would ignore."""
    if edge_attr is None:
        return
    got, expected = f"of shape {tuple(edge_attr.shape)}", "None, as the layer has no edge_dim"
    hint = "Pass the graph of each node as batch=batch."
    if edge_attr.is_floating_point() or edge_attr.dim() != 1:
        width = edge_attr.shape[-1] if edge_attr.dim() > 1 else 1
        hint = f"Make the layer with edge_dim={width}, or leave them out."
    raise KindError("edge_attr", got, expected, hint=hint)


def sum_of_graphs(states: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """Return the sum of the nodes ``(N, H)`` of each graph; a single graph by default.

    Without ``batch_size``, it is computed from ``batch``, which breaks the graph of
    ``torch.compile``.
    """
    if batch is None:
        return states.sum(0, keepdim=True)
    if not isinstance(batch, Tensor) or batch.dtype not in (torch.int32, torch.int64):
        got = str(batch.dtype) if isinstance(batch, Tensor) else type(batch).__name__
        raise KindError("batch", got, "a tensor of torch.int64, the graph of each node")
    if batch.shape != states.shape[:1]:
        raise ShapeError("batch", batch.shape, f"({len(states)},), the graph of each node")
    if batch_size is None:
        counted: Any = batch.max().item() + 1 if batch.numel() else 0  # int() fixes it in exports
        if torch.compiler.is_exporting():
            torch._check(counted >= 1)
        batch_size = cast("int", counted)
    zeros = torch.zeros_like(states[:1].sum(0, keepdim=True))  # a row even without nodes
    try:
        return add_rows(zeros.expand(batch_size, -1), batch, states)
    except (IndexError, RuntimeError) as error:
        if "out of bounds" not in str(error) and "out of range" not in str(error):
            raise
        expected = f"graphs from 0 to {batch_size - 1}, as there are {batch_size}"
        ends = [int(batch.min()), int(batch.max())]
        raise ArgumentError("the range of batch", ends, expected) from None


def _check_edge_index(edge_index: Tensor, like: Tensor) -> None:
    """Check the dtype and shape of edges; the op checks their values."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ShapeError("edge_index", edge_index.shape, "(2, edges), sources over targets")
    if edge_index.dtype != torch.int64:
        hint = "Use edge_index.long()."
        raise KindError("edge_index", str(edge_index.dtype), "torch.int64", hint=hint)
    if edge_index.device != like.device:
        raise wrong_device("edge_index", edge_index, like.device)


# The sum over neighbors as a PyG module, for use with PyG's explainers.

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


# One chain c_1 … c_n of a graph layer.
#
# c_j[v] = p_j[v] o lam sum_{u -> v} sigma(c_{j-1}[u]) * R^(j) e_uv          L17 (6), (8), section 4


class WalkStates(nn.Module):
    """The chain with its references and decay.

    Attributes:
        weight: The nodes of the references ``(n·H, I)``.
        edge_weight: The edges of the references ``((n − 1)·H, K)``, or None.
        decay_logit: σ^{−1} of a learned decay ``(H,)``, or None.
        gate_weight: Gate matrices of source and target, output by input ``(2·H, I)``, or None.
        gate_edge: Gate matrix of the edge ``(H, K)``, or None.
        gate_bias: Gate bias ``(H,)``, or None.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, options: Walks, *,
        device: torch.device | str | None, dtype: torch.dtype | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.options, self.hidden_channels = options, hidden_channels

        def parameter(*shape: int, used: bool = True) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if used else None

        H, K, has_edges = hidden_channels, options.edge_dim or 0, options.edge_dim is not None
        n, is_gated = options.order, options.decay == "gated"
        self.weight = nn.Parameter(torch.empty(n * H, in_channels, device=device, dtype=dtype))
        self.edge_weight = parameter((n - 1) * H, K, used=has_edges)
        self.decay_logit = parameter(H, used=options.decay == "learned")
        self.gate_weight = parameter(2 * H, in_channels, used=is_gated)
        self.gate_edge = parameter(H, K, used=is_gated and has_edges)
        self.gate_bias = parameter(H, used=is_gated)
        self.sums = NeighborSum()
        self.reset_parameters()

    @property
    def nodes(self) -> Tensor:
        """The nodes of the references ``(n, H, I)``, a view."""
        return self.weight.unflatten(0, (self.options.order, self.hidden_channels))

    @property
    def edges(self) -> Tensor | None:
        """The edges of the references ``(n − 1, H, K)``, a view, or None."""
        shape = self.options.order - 1, self.hidden_channels
        return None if self.edge_weight is None else self.edge_weight.unflatten(0, shape)

    @property
    def gates(self) -> Tensor | None:
        """The gate's matrices on source and target ``(2, H, I)``, a view, or None."""
        shape = 2, self.hidden_channels
        return None if self.gate_weight is None else self.gate_weight.unflatten(0, shape)

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/fan_in), and set biases and logits to 0."""
        for weight in (self.weight, self.edge_weight, self.gate_weight, self.gate_edge):
            if weight is not None:
                draw(weight)
        for parameter in (self.gate_bias, self.decay_logit):
            if parameter is not None:
                nn.init.zeros_(parameter)

    def decay_value(self) -> Tensor | None:
        """Return λ ``()`` if it is constant or ``(H,)`` if learned; None for a gate."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        decay = self.options.decay
        # not stored as a tensor, so that it is exact after conversion of the layer to float64
        return None if isinstance(decay, str) else self.weight.new_full((), decay)

    def edge_gates(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return λ of every edge ``(E, H)``."""
        value = self.decay_value()
        if value is not None:
            return value.expand(edge_index.shape[1], self.hidden_channels)
        assert self.gates is not None
        assert self.gate_bias is not None
        of_source, of_target = x @ self.gates.mT
        z = of_source[edge_index[0]] + of_target[edge_index[1]] + self.gate_bias
        if self.gate_edge is not None:
            assert edge_attr is not None
            z = z + edge_attr @ self.gate_edge.T
        return self.options.gate_scale * torch.sigmoid(z)

    def held(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, of_graph: Tensor, graphs: int
    ) -> HeldWalks:
        """Return the held gates of a batch of graphs, with the graph of each node ``(N,)``."""
        o, gates = self.options, self.edge_gates(x, edge_index, edge_attr)
        edges = edge_attr if self.edge_weight is not None else None
        return HeldWalks(x, edge_index, gates, edges, of_graph, graphs, o.order, o.combine, o.sigma)

    def unit_references(self) -> tuple[Tensor, ...]:
        """Return nodes ``(n, H, d)`` and, if there are edges, edges ``(n − 1, H, K)``."""
        return (self.nodes,) if self.edges is None else (self.nodes, self.edges)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> list[Tensor]:
        """Return c_1 … c_n of every node, each ``(N, H)``."""
        o, H = self.options, self.hidden_channels
        weights, bias, edges = self.weight, None, self.edges
        if self.gate_weight is not None:
            weights = torch.cat((weights, self.gate_weight))
            assert self.gate_bias is not None
            bias = F.pad(self.gate_bias, ((o.order + 1) * H, 0))
        # autocast may reduce the precision of products, but not of sums
        products = F.linear(x, weights, bias).to(self.weight.dtype).split(H, dim=1)
        gates = {}
        if self.gate_weight is not None:
            gates = {
                "source_gate": products[o.order],
                "target_gate": products[o.order + 1],
                "edge_gate": self.gate_edge,
                "scale": o.gate_scale,
            }
        is_masked = o.combine == "add" or o.sigma != "identity"
        ends = None
        lam, sigma = self.decay_value(), NONLINEARITIES[o.sigma].value
        states = [products[0]]
        for j in range(1, o.order):
            factor = None if edges is None else edges[j - 1]
            c = sigma(states[-1])
            sums = self.sums(c, edge_index, edge_attr=edge_attr, factor=factor, **gates)
            if is_masked and ends is None:  # after the sums, which check the edges
                ends = walks_end(edge_index, x.shape[0], o.order)
            if lam is not None and not (self.decay_logit is None and o.decay == 1.0):
                sums = lam * sums
            c_new = sums * products[j] if o.combine == "multiply" else sums + products[j]
            states.append(c_new if ends is None else torch.where(ends[:, j, None], c_new, 0.0))
        return states


def draw(weight: Tensor) -> None:
    """Draw a weight from N(0, 1/fan_in), so that products have the scale of the input."""
    nn.init.normal_(weight, std=max(1, weight.shape[-1]) ** -0.5)


# A reference walk as a graph.


def path_graph(reference: Tensor, edges: Tensor | None = None) -> Data:
    r"""Return the directed path :math:`v_1 \to \dots \to v_n` of a reference walk.

    The unit of that reference computes the random-walk kernel of a graph and this path.

    Args:
        reference: Features of its nodes ``(n, d)``, a row of ``layer.references()``.
        edges: Features of its edges ``(n - 1, K)``, a row of ``layer.edge_references()``.

    Returns:
        PyG ``Data`` with ``x``, ``edge_index`` and, with ``edges``, ``edge_attr``.

    Raises:
        ShapeError: If a shape is wrong.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 3.1, whose :math:`L_V` has one node too many.
    """
    if reference.dim() != 2 or not len(reference):
        raise ShapeError("reference", reference.shape, "(nodes, features) of at least one node")
    steps = torch.arange(len(reference) - 1, device=reference.device)
    path = Data(x=reference, edge_index=torch.stack((steps, steps + 1)))
    if edges is not None:
        if edges.dim() != 2 or len(edges) != len(steps):
            raise ShapeError("edges", edges.shape, f"({len(steps)}, features)")
        path.edge_attr = edges
    return path


# The network of the random-walk kernel, L17 (6), (8), section 4.


class RandomWalkKernelNN(HasKernel["Kernel"], GraphNetwork):
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
        edge_dim: K, features of an edge; None for edges without features.
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

    def held_walks(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, of_graph: Tensor, graphs: int
    ) -> list[HeldWalks]:
        """Return the held gates of a batch of graphs, with the graph of each node ``(N,)``."""
        edge_index, edges = self._check(x, edge_index, edge_attr, self.walks.weight)
        return [self.walks.held(x, edge_index, edges, of_graph, graphs)]

    def unit_references(self) -> tuple[Tensor, ...]:
        """Return nodes ``(n, H, d)`` and, with edge features, edges ``(n − 1, H, K)``."""
        return self.walks.unit_references()

    def not_linear(self) -> str:
        """Return why a unit is not linear in features of its reference; "" if it is."""
        sigma = self.options.sigma
        if NONLINEARITIES[sigma].mercer or sigma == "identity" or self.order == 1:
            return ""
        reason = f"{sigma} has no power series at 0 without negative coefficients"
        return f"Its σ is not a Mercer kernel: {reason}."

    def _states(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> list[Tensor]:
        edge_index, edges = self._check(x, edge_index, edge_attr, self.walks.weight)
        return self.walks(x, edge_index, edges)
