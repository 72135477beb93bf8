"""Lists of graphs, PyG ``Data`` or networkx graphs: their reading, and batches of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, SupportsIndex, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional.walks import edges_of, walks_end
from representer.kernels.sequences import check_device
from representer.ops.walk_aggregate import check_ends

Labels = list[Hashable]
FORMS = "a PyG Data or a networkx graph"
SMILES = "Read a SMILES with representer.data.molecules.read_smiles."


@dataclass(frozen=True)
class Graph:
    """A graph in the internal form of the kernels."""

    # features (N, d), float64, or a label of each node; integer labels that are consistent over all
    # graphs may be a tensor (N,)
    nodes: Tensor | Labels
    # source and target of each edge (2, E); an undirected edge appears in both directions
    edge_index: Tensor
    # features (E, K), float64, or a label of each edge; None if it has none
    edges: Tensor | Labels | None = None

    def __len__(self) -> int:
        return len(self.nodes)


class GraphList(list[Graph]):
    """Graphs that travel to another process as a few arrays, since a tensor is slow to pickle.

    A graph has two or three tensors, and a pickled tensor costs more time than many kernels need
    for the graph; tensors that are equal in type and width are therefore joined.
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> GraphList: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Graph | GraphList:
        if isinstance(index, slice):
            return GraphList(super().__getitem__(index))
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        nodes, ends = [g.nodes for g in self], [g.edge_index.T for g in self]
        return _unpacked, (_packed(nodes), _packed(ends), _packed([g.edges for g in self]))


def _packed(parts: Sequence[Any]) -> tuple[np.ndarray, list[int]] | list[Any]:
    """Join tensors ``(n, …)`` to an array with their sizes, or return what cannot be joined."""
    first = parts[0] if parts else None
    is_plain = isinstance(first, Tensor) and first.device.type == "cpu" and not first.requires_grad
    if not is_plain or any(_kind(x) != _kind(first) for x in parts):
        return list(parts)
    return torch.cat(list(parts)).numpy(), [len(x) for x in parts]


def _kind(x: Any) -> tuple[Any, ...] | None:
    """Return what tensors that are joined have in common."""
    if not isinstance(x, Tensor):
        return None
    return x.dtype, x.shape[1:], x.device, x.requires_grad


def _unpacked(*columns: Any) -> GraphList:
    """Return the graphs of packed nodes, edges' ends and edges."""
    nodes, ends, edges = (
        torch.from_numpy(np.require(column[0], requirements="W")).split(column[1])
        if isinstance(column, tuple)
        else column
        for column in columns
    )
    return GraphList(
        Graph(node, end.T, edge) for node, end, edge in zip(nodes, ends, edges, strict=True)
    )


@dataclass(frozen=True)
class Graphs:
    """A list of graphs."""

    items: GraphList  # the graphs
    from_tensors: bool  # true if they were Data, so that the kernel returns a tensor


def read_graphs(X: Iterable[Any], name: str = "X") -> Graphs:
    """Read a list of graphs, each a PyG ``Data``, a networkx graph or a :class:`Graph`.

    Args:
        X: The graphs, or a dataset or ``Batch`` of PyG. From ``Data``, the fields ``x``,
            ``edge_index`` (or the sparse ``adj_t``) and ``edge_attr`` are used; from a networkx
            graph, the node attribute ``x`` and the edge attribute ``edge_attr``, numbers or labels.
            If no node of a networkx graph has ``x``, all have the same feature, 1.
        name: Their name in messages.

    Raises:
        ArgumentError: If a number is not finite, or an edge joins a node that does not exist.
        ShapeError: If features or edges have the wrong shape.
    """
    if isinstance(X, Graphs):
        return X
    if hasattr(X, "to_data_list"):
        X = X.to_data_list()  # type: ignore[attr-defined]
    is_graph = not isinstance(X, Dataset) and (hasattr(X, "edge_index") or hasattr(X, "adj"))
    if isinstance(X, (str, bytes, dict)) or is_graph or not isinstance(X, Iterable):
        hint = "Put a single graph into a list." if is_graph or isinstance(X, str) else ""
        raise KindError(name, type(X).__name__, f"a list of graphs, each {FORMS}", hint=hint)
    raw = list(X)
    items = GraphList(_read(graph, f"{name}[{i}]") for i, graph in enumerate(raw))
    are_arrays = any(isinstance(g, Graph) or hasattr(g, "adj") for g in raw)
    return Graphs(items, bool(raw) and not are_arrays)


def _read(graph: Any, name: str) -> Graph:
    if isinstance(graph, Graph):
        return graph
    if (graphs := graphs_of_batch(graph)) != 1:
        raise KindError(name, f"a batch of {graphs} graphs", "a single graph", hint=BATCHES)
    if hasattr(graph, "edge_index"):
        return _read_data(graph, name)
    if hasattr(graph, "adj") and hasattr(graph, "is_directed"):
        return _read_networkx(graph, name)
    hint = SMILES if isinstance(graph, str) else ""
    raise KindError(name, type(graph).__name__, FORMS, hint=hint)


BATCHES = "Pass the data set of a loader, loader.dataset, or batch.to_data_list()."


def graphs_of_batch(graph: Any) -> int:
    """Return the number of graphs of a ``Batch`` of PyG; 1 for anything else."""
    return int(graph.num_graphs) if hasattr(graph, "to_data_list") else 1


def _read_data(data: Any, name: str) -> Graph:
    x, edge_index = getattr(data, "x", None), data.edge_index
    if not isinstance(x, Tensor):
        hint = "Set a feature of each node, such as x = torch.ones(nodes, 1)."
        raise KindError(f"{name}.x", str(x), "a tensor (nodes, features)", hint=hint)
    if edge_index is None and getattr(data, "adj_t", None) is not None:
        edge_index = edges_of(data.adj_t, len(x))
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or len(edge_index) != 2:
        got = tuple(edge_index.shape) if isinstance(edge_index, Tensor) else ()
        raise ShapeError(f"{name}.edge_index", got, "(2, edges), sources over targets")
    check_device(x, f"{name}.x", edge_index, "edge_index")
    nodes = _features(x, f"{name}.x", "nodes")
    edge_index = edge_index.long()
    check_ends(edge_index, nodes.shape[0], f"{name}.edge_index")
    edges = getattr(data, "edge_attr", None)
    if isinstance(edges, Tensor):
        edges = _features(edges, f"{name}.edge_attr", "edges")
        if len(edges) != edge_index.shape[1]:
            expected = f"({edge_index.shape[1]}, features), one row per edge"
            raise ShapeError(f"{name}.edge_attr", edges.shape, expected)
    return Graph(nodes, edge_index, edges)


def _read_networkx(graph: Any, name: str) -> Graph:
    index = {node: i for i, node in enumerate(graph.nodes)}
    values, is_plain = [], not any("x" in attributes for _, attributes in graph.nodes(data=True))
    for node, attributes in graph.nodes(data=True):
        if "x" not in attributes and not is_plain:
            hint = f"Set graph.nodes[{node!r}]['x'] to numbers or a label."
            raise KindError(f"{name}.nodes[{node!r}]", "without 'x'", "an attribute 'x'", hint=hint)
        values.append(attributes.get("x", 1.0))
    sources, targets, of_edges = [], [], []
    for u, v, attributes in graph.edges(data=True):
        both = not graph.is_directed() and u != v
        for a, b in ((u, v), (v, u)) if both else ((u, v),):
            sources.append(index[a])
            targets.append(index[b])
            of_edges.append(attributes.get("edge_attr"))
    nodes = _numbers_or_labels(values, f"{name}.x", "nodes")
    edges = None
    if of_edges and all(value is not None for value in of_edges):
        edges = _numbers_or_labels(of_edges, f"{name}.edge_attr", "edges")
    return Graph(nodes, torch.tensor([sources, targets], dtype=torch.int64), edges)


def _numbers_or_labels(values: Sequence[Any], name: str, what: str) -> Tensor | Labels:
    if any(isinstance(value, (str, bytes)) for value in values):
        return [value.item() if isinstance(value, np.generic) else value for value in values]
    try:
        array = np.asarray([np.asarray(value, dtype=np.float64) for value in values])
    except (TypeError, ValueError):
        expected = f"numbers, equally many for all {what}, or labels"
        raise KindError(name, f"{values[0]!r}, …", expected) from None
    return _features(torch.from_numpy(array), name, what)


def _features(x: Tensor, name: str, what: str) -> Tensor:
    x = x[:, None] if x.dim() == 1 else x
    if x.dim() != 2:
        raise ShapeError(name, x.shape, f"({what}, features)")
    if x.is_complex():
        raise KindError(name, str(x.dtype), "real numbers")
    finite = torch.isfinite(x.detach())
    if not finite.all():
        i, k = finite.logical_not().nonzero()[0].tolist()
        raise ArgumentError(f"{name}[{i}, {k}]", float(x[i, k]), "a finite number")
    return x.double()


# Batches of graphs for the graph kernels.


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
        sizes = torch.tensor(self.sizes, dtype=torch.int64)  # float32 if there are none
        return torch.repeat_interleave(sizes).to(self.nodes.device)

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
                self.nodes[start:stop], self.edge_index[:, inside] - start,
                None if self.edges is None else self.edges[inside], self.sizes[first:last],
            )  # fmt: skip
            first, start = last, stop


def batches(
    X: Sequence[Graph], Y: Sequence[Graph] | None, *, delta: bool, edges: bool
) -> tuple[Batch, Batch | None]:
    """Join the graphs of each side, with consistent integer labels.

    Without Y, X is compared with itself; ``delta`` treats features as labels, and ``edges``
    compares edges, too. Both sides are discrete, or neither.

    Raises:
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
