"""A network on any acyclic graph of neurons with learned activations, M18 (1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from representer.checks import SuggestsArguments
from representer.errors import ArgumentError, ShapeError
from representer.functional.activations import Green
from representer.nn.activation.kernel_activation import Init, KernelActivation
from representer.nn.checks import check_dense, leaf_of_fx
from representer.ops.common import has_values

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
