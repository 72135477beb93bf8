"""A network on any acyclic graph of neurons with learned activations, M18 (1)."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from representer.checks import SuggestsArguments
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional.activations import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.activation.kernel_linear import Formula, KernelLinear, drawn, signed_square
from representer.nn.layer import check_dense, leaf_of_fx
from representer.ops.common import has_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Kolmogorov-Arnold networks, and those of B-splines as kernel expansions.
#
# A B-spline of degree m is a divided difference of truncated powers,
#
#     B_l(a) = (t_{l+m+1} - t_l) [t_l, ..., t_{l+m+1}] (t - a)_+^m
#
# and (t - a)_+^m = (s |t - a|^m + (t - a)^m) / 2, whose polynomial the difference removes; s is 1
# for odd m, else the sign of t - a. So a spline is an expansion by g = |u|, u |u| or |u|^3 with a
# center at every knot, of which those by u |u| are summed over all centers.
#
# Liu et al., KAN: Kolmogorov-Arnold Networks, 2024, (2.5)-(2.10).
#
# de Boor, A Practical Guide to Splines, 1978, IX (2)-(4).

BY_DEGREE: dict[int, str | Green] = {1: "abs", 2: signed_square, 3: "cubic"}


class KAN(nn.Module):
    r"""A network of `KernelLinear` layers, without other activations.

    .. math::
        x^{(l+1)}_j = \sum_i f^{(l)}_{ij}(x^{(l)}_i) + \beta^{(l)}_j

    The values of the functions at the centers are trained, where they determine the coefficients:
    see `KernelLinear.train_values`.

    Args:
        sizes: Features of the input, of each hidden layer and of the output.
        num_centers: K of each layer.
        green: g.
        limits: The range of the centers of each layer; `fit_grid` adapts them to data.
        **options: Other arguments of each `KernelLinear`.

    Attributes:
        layers: The layers, a ``torch.nn.ModuleList``.

    Shape:
        - input ``(..., sizes[0])``; output ``(..., sizes[-1])``

    Raises:
        ArgumentError: If there are fewer than two sizes, or an option is invalid.

    References:
        Liu et al., KAN: Kolmogorov-Arnold Networks, 2024, (2.7).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        num_centers: int = 8,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-3.0, 3.0),
        **options: Any,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ArgumentError("sizes", sizes, "two numbers or more: of the input and the output")
        self.layers = nn.ModuleList(
            KernelLinear(before, after, num_centers, green, limits, **options)
            for before, after in itertools.pairwise(sizes)
        )
        for layer in self._each():
            if layer.values_suffice:
                layer.train_values()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers in turn."""
        for layer in self.layers:
            input = layer(input)
        return input

    def penalty(self, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
        """Return the sum of the penalties of all layers; see `KernelLinear.penalty`."""
        return torch.stack([layer.penalty(norm) for layer in self._each()]).sum()

    def train_values(self, mode: bool = True) -> KAN:
        """Let optimizers see values at the centers; see `KernelLinear.train_values`."""
        for layer in self._each():
            layer.train_values(mode)
        return self

    def refine(self, num_centers: int) -> None:
        """Add centers to each layer; no function changes."""
        for layer in self._each():
            layer.refine(num_centers)

    @torch.no_grad()
    def fit_grid(self, x: Tensor) -> float:
        """Move the centers of each layer to quantiles of its input; return the largest change."""
        changes = []
        for layer in self._each():
            changes.append(layer.fit_grid(x))
            x = layer(x.to(layer.coefficients.dtype))
        return max(changes)

    def formulas(self, points: int = 401) -> list[list[Formula]]:
        """Suggest a formula for each function of each layer; see `KernelLinear.formulas`."""
        return [layer.formulas(points) for layer in self._each()]

    def plot(self, points: int = 201) -> Figure:
        """Plot the functions of all layers in one picture, one layer below the other.

        Raises:
            MissingExtraError: If matplotlib is not installed.
        """
        return drawn(self._each(), points)

    def _each(self) -> list[KernelLinear]:
        return [layer for layer in self.layers if isinstance(layer, KernelLinear)]

    @classmethod
    def from_efficient_kan(cls, source: nn.Module | Mapping[str, Tensor]) -> KAN:
        """Convert a network or layer of efficient-kan, or its state dict.

        Returns:
            The network, with one layer for a ``KANLinear``. ``conversion_error`` of each layer is
            the largest error of its functions over the splines' range, from rounding.

        Raises:
            KindError: If it has no such layers.
        """
        layers = []
        names = "base_weight", "spline_weight"
        for prefix, state in _layers(source, r"(layers\.\d+\.)?", names):
            chi = state["spline_weight"]
            if "spline_scaler" in state:
                chi = chi * state["spline_scaler"][..., None]
            edges = chi.transpose(0, 1), state["base_weight"]
            layers.append(_converted(state["grid"], *edges, prefix))
        return cls._of(layers)

    @classmethod
    def from_pykan(cls, source: nn.Module | Mapping[str, Tensor]) -> KAN:
        """Convert a network (``MultKAN``) or ``KANLayer`` of pykan, or its state dict.

        Returns:
            The network, as `from_efficient_kan` returns it.

        Raises:
            KindError: If it has no such layers, or has symbolic functions, or scales or shifts of
                nodes, which are no functions on edges.
        """
        state = source.state_dict() if isinstance(source, nn.Module) else dict(source)
        for name, value in state.items():
            neutral = 1.0 if "scale" in name.split(".")[0] else 0.0
            is_apart = name.startswith(("node_", "subnode_"))
            is_apart |= bool(re.match(r"symbolic_fun\.\d+\.mask", name))
            if is_apart and not bool((value == neutral).all()):
                raise KindError(name, "not neutral", f"all {neutral:g}, as in a network of splines")
        layers = []
        names = "coef", "scale_base", "scale_sp"
        for prefix, layer in _layers(state, r"(act_fun\.\d+\.)?", names):
            mask = layer.get("mask", torch.ones_like(layer["scale_base"]))
            chi = layer["coef"] * (mask * layer["scale_sp"])[..., None]
            base = (mask * layer["scale_base"]).T
            layers.append(_converted(layer["grid"], chi, base, prefix))
        return cls._of(layers)

    @classmethod
    def _of(cls, layers: list[KernelLinear]) -> KAN:
        network = cls([layers[0].in_features, *(layer.out_features for layer in layers)], 1)
        network.layers = nn.ModuleList(layers)
        return network


def _layers(
    source: Any, pattern: str, names: tuple[str, ...]
) -> list[tuple[str, dict[str, Tensor]]]:
    """Return the state of each layer, by its prefix in the order of the network."""
    state = source.state_dict() if isinstance(source, nn.Module) else source
    layers: dict[str, dict[str, Tensor]] = {}
    for name, value in state.items():
        if (match := re.match(pattern, name)) and "." not in (rest := name[match.end() :]):
            layers.setdefault(match.group(0), {})[rest] = value.detach()
    layers = {prefix: layer for prefix, layer in layers.items() if "grid" in layer}
    if not layers or any(name not in layer for layer in layers.values() for name in names):
        wanted = ", ".join(("grid", *names))
        raise KindError("source", f"with {', '.join(list(state)[:6])}", f"layers with {wanted}")
    return sorted(layers.items(), key=lambda pair: int("0" + "".join(filter(str.isdigit, pair[0]))))


def _converted(grid: Tensor, spline: Tensor, base: Tensor, prefix: str) -> KernelLinear:
    """Return a layer of knots ``(I, G)``, coefficients ``(I, J, S)`` and weights of SiLU."""
    degree = grid.shape[1] - spline.shape[2] - 1
    if degree not in BY_DEGREE:
        raise ArgumentError(f"{prefix}the degree of splines", degree, "1, 2 or 3")
    knots, weights = grid.double(), spline.double()
    inputs, outputs = spline.shape[:2]
    inner = knots[:, degree : knots.shape[1] - degree]
    limits = float(inner.min()), float(inner.max())
    layer = KernelLinear(
        inputs, outputs, knots.shape[1], BY_DEGREE[degree], limits, "zeros", bias=False,
        base="silu", device=spline.device, dtype=spline.dtype,
    )  # fmt: skip
    with torch.no_grad():
        layer.centers.copy_(knots)
        layer.coefficients.copy_(weights @ differences(knots, degree))
        assert layer.weight is not None
        layer.weight.copy_(base)
        points = torch.linspace(*limits, 1001, dtype=torch.float64).expand(len(knots), -1)
        exact = (b_splines(points, knots, degree) @ weights.mT).mT
        layer.conversion_error = float((layer.expansions(points) - exact).abs().max())
    return layer


def differences(knots: Tensor, degree: int) -> Tensor:
    """Return the B-splines of knots ``(I, G)`` as expansions by their g, ``(I, S, G)``."""
    count = knots.shape[1] - degree - 1
    rows = knots.new_zeros(len(knots), count, knots.shape[1])
    for s in range(count):
        window = knots[:, s : s + degree + 2]
        gaps = window[:, :, None] - window[:, None]
        gaps.diagonal(dim1=1, dim2=2).fill_(1.0)
        width = window[:, -1:] - window[:, :1]
        rows[:, s, s : s + degree + 2] = width / (2 * gaps.prod(-1))
    return rows if degree % 2 else -rows  # u = a - t has the other sign than t - a


def b_splines(points: Tensor, knots: Tensor, degree: int) -> Tensor:
    """Return the B-splines of knots ``(I, G)`` at points ``(I, P)``, ``(I, P, S)``."""
    a, t = points[..., None], knots[:, None]
    values = ((a >= t[..., :-1]) & (a < t[..., 1:])).to(points.dtype)
    for m in range(1, degree + 1):
        rising = (a - t[..., : -m - 1]) / (t[..., m:-1] - t[..., : -m - 1])
        falling = (t[..., m + 1 :] - a) / (t[..., m + 1 :] - t[..., 1:-m])
        values = rising * values[..., :-1] + falling * values[..., 1:]
    return values


Edge = tuple[Hashable, Hashable]
DENSE = 0.25  # fraction of the possible edges from which a product is faster with a full matrix


class Level(NamedTuple):
    """The nodes of one depth."""

    nodes: slice  # of `KernelDAG.nodes`
    edges: slice  # of `KernelDAG.edges`
    parents: tuple[int, ...]  # depths of the parents, 0 for inputs


class KernelDAG(SuggestsArguments, nn.Module):
    r"""A network of neurons on an acyclic graph, each with its own learned activation.

    .. math::
        x_i = f_i(a_i), \qquad a_i = b_i + \sum_{j \in pa(i)} w_{ij} x_j

    Nodes of equal depth are one product and one :class:`KernelActivation`. A layered graph with all
    edges between layers is a multilayer perceptron; a node without parents that is no input is the
    constant :math:`f_i(b_i)`.

    Args:
        edges: Pairs (j, i) of nodes, from parent to child; a node is any hashable name.
        inputs: The nodes of the input's features, in their order.
        outputs: The nodes of the output's features, in their order.
        num_centers: d of each activation.
        green: g.
        limits: The range of the centers.
        init: The initial function of each neuron.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
        **options: Other arguments of :class:`KernelActivation`.

    Attributes:
        nodes: All nodes but the inputs, by depth, in the order of ``bias`` ``(N,)``.
        edges: The edges, by the depth of the child, in the order of ``weight`` ``(E,)``.
        activations: The :class:`KernelActivation` of each depth, whose features are its nodes.

    Shape:
        - input ``(…, len(inputs))``; output ``(…, len(outputs))``

    Raises:
        ArgumentError: If there is a cycle, a repeated edge, an edge into an input, or an output
            that is no node.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (1).
    """

    def __init__(
        self,
        edges: Iterable[Edge],
        inputs: Iterable[Hashable],
        outputs: Iterable[Hashable],
        num_centers: int = 20,
        green: str | Green = "abs",
        limits: tuple[float, float] = (-4.0, 4.0),
        init: Init = "tanh",
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        parents = _parents(tuple(edges), self.inputs, self.outputs)
        depths = dict.fromkeys(self.inputs, 0)
        for node in TopologicalSorter(parents).static_order():
            if node not in depths:
                depths[node] = 1 + max((depths[j] for j in parents[node]), default=0)
        by_depth: list[list[Hashable]] = [[] for _ in range(1 + max(depths.values()))]
        for node in (*self.inputs, *(n for n in parents if n not in self.inputs)):
            by_depth[depths[node]].append(node)
        self.nodes = tuple(node for level in by_depth[1:] for node in level)
        self.edges = tuple((j, i) for i in self.nodes for j in parents[i])
        self.levels: list[Level] = []
        rows, columns, first = [], [], 0
        for level in by_depth[1:]:
            below = tuple(sorted({depths[j] for i in level for j in parents[i]}))
            names = [node for depth in below for node in by_depth[depth]]
            column = {node: k for k, node in enumerate(names)}
            rows += [row for row, i in enumerate(level) for _ in parents[i]]
            columns += [column[j] for i in level for j in parents[i]]
            start = self.levels[-1].nodes.stop if self.levels else 0
            nodes = slice(start, start + len(level))
            self.levels.append(Level(nodes, slice(first, len(rows)), below))
            first = len(rows)
        read = tuple(sorted({depths[node] for node in self.outputs}))
        names = [node for depth in read for node in by_depth[depth]]
        column = {node: k for k, node in enumerate(names)}
        self._read = read, [column[node] for node in self.outputs]
        self.register_buffer("edge_index", torch.tensor([rows, columns], device=device).long())
        made = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(len(self.edges), **made))
        self.bias = nn.Parameter(torch.empty(len(self.nodes), **made))
        self.activations = nn.ModuleList(
            KernelActivation(len(level), num_centers, green, limits, init, **options, **made)
            for level in by_depth[1:]
        )
        self._draw()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        self._draw()
        for activation in self.activations:
            cast(KernelActivation, activation).reset_parameters()

    @torch.no_grad()
    def _draw(self) -> None:
        """Draw weights and biases as ``torch.nn.Linear`` does, from the parents of each node."""
        if not has_values(self.weight):
            return
        counts = Counter(i for _, i in self.edges)
        self.bias.uniform_(-1, 1).mul_(
            self.bias.new_tensor([max(1, counts[i]) ** -0.5 for i in self.nodes])
        )
        self.weight.uniform_(-1, 1).mul_(
            self.weight.new_tensor([counts[i] ** -0.5 for _, i in self.edges])
        )

    @leaf_of_fx
    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs.

        Raises:
            ShapeError: If the last dimension is not that of the inputs.
        """
        check_dense(input)
        if not input.dim() or input.shape[-1] != len(self.inputs):
            expected = f"{len(self.inputs)} features in the last dimension"
            raise ShapeError("input", tuple(input.shape), expected)
        values = [input.reshape(-1, len(self.inputs)).T]
        index = cast(Tensor, self.edge_index)
        for level, activation in zip(self.levels, self.activations, strict=True):
            a = self.bias[level.nodes, None].expand(-1, values[0].shape[1])
            if level.parents:
                below = torch.cat([values[depth] for depth in level.parents])
                size, weight = (len(a), len(below)), self.weight[level.edges]
                where = index[:, level.edges]
                if len(weight) >= DENSE * len(a) * len(below):
                    product = weight.new_zeros(size).index_put(tuple(where), weight)
                else:
                    product = torch.sparse_coo_tensor(where, weight, size, check_invariants=False)
                a = a + product @ below
            values.append(activation(a.T).T)
        depths, rows = self._read
        output = torch.cat([values[depth] for depth in depths])[rows].T
        return output.reshape(*input.shape[:-1], len(self.outputs))

    def extra_repr(self) -> str:
        """Return the sizes of the graph."""
        sizes = f"{len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.edges)} edges"
        return f"{sizes}, {len(self.outputs)} outputs"


def _parents(
    edges: tuple[Edge, ...], inputs: tuple[Hashable, ...], outputs: tuple[Hashable, ...]
) -> dict[Hashable, list[Hashable]]:
    """Return the parents of each node in the order of their edges, after checking the graph."""
    parents: dict[Hashable, list[Hashable]] = {node: [] for node in inputs}
    if not inputs or len(parents) < len(inputs):
        raise ArgumentError("inputs", inputs, "one or more nodes, each once")
    seen = set()
    for edge in edges:
        if not isinstance(edge, (tuple, list)) or len(edge) != 2:
            raise ArgumentError("edges", edge, "pairs of nodes (parent, child)")
        parent, child = edge
        if child in inputs:
            raise ArgumentError("edges", edge, "no edge into an input")
        if (parent, child) in seen:
            raise ArgumentError("edges", edge, "each edge once")
        seen.add((parent, child))
        parents.setdefault(parent, [])
        parents.setdefault(child, []).append(parent)
    if not outputs:
        raise ArgumentError("outputs", outputs, "one or more nodes")
    for node in outputs:
        if node not in parents:
            raise ArgumentError("outputs", node, "nodes of the edges or inputs")
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        cycle = " → ".join(map(str, error.args[1]))
        raise ArgumentError("edges", cycle, "a graph without a cycle") from None
    return parents
