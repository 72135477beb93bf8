"""Batches of graphs for the graph kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.functional.graph_walk import walks_end
from representer.kernels.graphs import Graph, Labels
from representer.kernels.sequences import check_device


@dataclass(frozen=True)
class Batch:
    """Several graphs as one graph without edges between them."""

    nodes: Tensor  # features (N, d), float64, or integer labels (N,)
    edge_index: Tensor  # (2, E)
    edges: Tensor | None  # features (E, K), labels (E,), or None
    sizes: tuple[int, ...]  # nodes of each graph

    @property
    def is_discrete(self) -> bool:
        """Return True if nodes and, if they are compared, edges have labels."""
        return self.nodes.dim() == 1 and (self.edges is None or self.edges.dim() == 1)

    @cached_property
    def of_graph(self) -> Tensor:
        """Return the index of each node's graph ``(N,)``."""
        return torch.repeat_interleave(torch.tensor(self.sizes)).to(self.nodes.device)

    def ends(self, order: int) -> Tensor:
        """Return True for nodes where walks of 1, 2, … n nodes end ``(N, n)``."""
        return walks_end(self.edge_index, len(self.nodes), order)

    def summed(self, values: Tensor) -> Tensor:
        """Sum the rows ``(N, …)`` of each graph ``(G, …)``."""
        zeros = values.new_zeros(len(self.sizes), *values.shape[1:])
        return zeros.index_add(0, self.of_graph, values)

    def parts(self, max_nodes: int) -> Iterator[Batch]:
        """Split the graphs, in their order, into batches of about ``max_nodes`` nodes.

        With 0, each graph is a batch, also one without nodes.
        """
        first, start = 0, 0
        for last in range(1, len(self.sizes) + 1):
            stop = start + sum(self.sizes[first:last])
            is_full = last == len(self.sizes) or stop - start + self.sizes[last] > max_nodes
            if max_nodes and not is_full:
                continue
            inside = (self.edge_index[0] >= start) & (self.edge_index[0] < stop)
            yield Batch(
                self.nodes[start:stop],
                self.edge_index[:, inside] - start,
                None if self.edges is None else self.edges[inside],
                self.sizes[first:last],
            )
            first, start = last, stop


def batches(
    X: Sequence[Graph], Y: Sequence[Graph] | None, *, delta: bool, edges: bool
) -> tuple[Batch, Batch | None]:
    """Join the graphs of each side, with consistent integer labels.

    Args:
        X: Graphs.
        Y: Graphs, or None for X itself.
        delta: Treat features as labels.
        edges: Compare edges, too.

    Returns:
        Both sides: both discrete, or neither.

    Raises:
        KindError: If labels and features, or devices are mixed, or compared edges have no features.
        ShapeError: If the number of features differs.
    """
    of_nodes: dict[Hashable, int] = {}
    of_edges: dict[Hashable, int] = {}
    sides = [X] if Y is None else [X, Y]
    named = [
        (f"{'XY'[s]}[{i}]", graph) for s, side in enumerate(sides) for i, graph in enumerate(side)
    ]
    for name, graph in named:
        check_device(
            graph.edge_index, f"{name}.edge_index", named[0][1].edge_index, "the first graph"
        )
    nodes = [(f"{name}.x", graph.nodes) for name, graph in named]
    numbered = _consistent(nodes, of_nodes, delta)
    attributes: list[Tensor] | None = None
    if edges:
        attached = []
        for name, graph in named:
            if graph.edges is None and graph.edge_index.shape[1]:
                hint = "Set edge_attr, or use edges=False."
                raise KindError(f"{name}.edge_attr", "None", "a feature of each edge", hint=hint)
            attached.append((f"{name}.edge_attr", [] if graph.edges is None else graph.edges))
        attributes = _consistent(attached, of_edges, delta)
    joined = []
    for side in sides:
        start = len(joined) and len(X)
        joined.append(
            _join(
                side,
                numbered[start : start + len(side)],
                None if attributes is None else attributes[start : start + len(side)],
            )
        )
    x, y = joined[0], joined[1] if Y is not None else None
    return (x, y) if x.is_discrete else as_features(x, y)


def _consistent(
    values: list[tuple[str, Tensor | Labels]], vocabulary: dict[Hashable, int], delta: bool
) -> list[Tensor]:
    """Return the values of all graphs as features ``(N, d)``, or as numbered labels ``(N,)``."""
    if any(isinstance(v, Tensor) and v.dim() == 1 for _, v in values):  # already integers
        return [v if isinstance(v, Tensor) else torch.zeros(0).long() for _, v in values]
    discrete = delta or any(isinstance(v, list) and v for _, v in values)
    rows = [v for _, v in values if isinstance(v, Tensor)]
    if delta and len(rows) == len(values) and len({row.shape[1] for row in rows}) == 1:
        joined = torch.cat(rows)
        dim = None if joined.shape[1] == 1 else 0  # scalars are sorted much faster
        numbers = torch.unique(joined, return_inverse=True, dim=dim)[1].flatten()
        return list(numbers.split([row.shape[0] for row in rows]))
    if discrete:
        return [torch.tensor(_numbers(name, v, vocabulary, delta)).long() for name, v in values]
    tensors = [(name, v) for name, v in values if isinstance(v, Tensor)]
    widest = max((v.shape[1] for _, v in tensors), default=0)
    width = next((v.shape[1] for _, v in tensors if len(v)), widest)
    for name, v in tensors:
        if len(v) and v.shape[1] != width:
            expected = f"({len(v)}, {width}), the features of the first graph"
            raise ShapeError(name, v.shape, expected)
    like = tensors[0][1] if tensors else torch.zeros(0, dtype=torch.float64)
    return [v if isinstance(v, Tensor) and len(v) else like.new_zeros(0, width) for _, v in values]


def _numbers(
    name: str, values: Tensor | Labels, vocabulary: dict[Hashable, int], delta: bool
) -> list[int]:
    labels: list[Hashable] = []
    if isinstance(values, Tensor):
        if len(values) and not delta:
            hint = 'With base="delta" both are labels.'
            raise KindError(name, "numbers", "labels, as of other graphs", hint=hint)
        labels = [tuple(row) for row in values.tolist()]
    else:
        labels = values
    return [vocabulary.setdefault(label, len(vocabulary)) for label in labels]


def _join(graphs: Sequence[Graph], nodes: list[Tensor], attributes: list[Tensor] | None) -> Batch:
    sizes = tuple(x.shape[0] for x in nodes)
    edges = torch.tensor([graph.edge_index.shape[1] for graph in graphs])
    sums = torch.tensor([0, *sizes[:-1]]).cumsum(0)
    edge_index = torch.cat([graph.edge_index for graph in graphs], dim=1)
    starts = torch.repeat_interleave(sums, edges).to(edge_index.device)
    edges_of = None if attributes is None else torch.cat(attributes).to(edge_index.device)
    return Batch(torch.cat(nodes).to(edge_index.device), edge_index + starts, edges_of, sizes)


def _one_hot(batch: Batch, node_labels: int, edge_labels: int) -> Batch:
    """Replace labels by one-hot features, whose inner product is 1 for equal labels, else 0."""
    nodes, edges = batch.nodes, batch.edges
    if nodes.dim() == 1:
        nodes = F.one_hot(nodes, max(1, node_labels)).double()
    if edges is not None and edges.dim() == 1:
        edges = F.one_hot(edges, max(1, edge_labels)).double()
    return replace(batch, nodes=nodes, edges=edges)


def side_by_side(x: Batch, y: Batch | None) -> Batch:
    """Return all graphs of both sides in one batch."""
    if y is None:
        return x
    return Batch(
        torch.cat((x.nodes, y.nodes)),
        torch.cat((x.edge_index, y.edge_index + len(x.nodes)), dim=1),
        None if x.edges is None or y.edges is None else torch.cat((x.edges, y.edges)),
        x.sizes + y.sizes,
    )


def as_features(x: Batch, y: Batch | None) -> tuple[Batch, Batch | None]:
    """Return discrete batches with one-hot features, and others unchanged."""
    sides = [x] if y is None else [x, y]
    node_labels = 1 + max(
        (int(s.nodes.max()) for s in sides if s.nodes.dim() == 1 and len(s.nodes)), default=0
    )
    edge_labels = 1 + max(
        (
            int(s.edges.max())
            for s in sides
            if s.edges is not None and s.edges.dim() == 1 and len(s.edges)
        ),
        default=0,
    )
    made = [_one_hot(side, node_labels, edge_labels) for side in sides]
    return made[0], made[1] if y is not None else None
