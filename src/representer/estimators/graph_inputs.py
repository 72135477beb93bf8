"""Graphs as inputs of a network: one column per label, standardized numbers, or degrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import DataError
from representer.estimators.fitting import shuffled
from representer.estimators.graph_reading import PlainGraph, Values
from representer.estimators.saving import PLAIN
from representer.kernels.graphs import Graph

Arguments = tuple[Tensor, Tensor, Tensor | None, Tensor, int]


class GraphBatches:
    """The part of `Inputs` that all graphs share, once they are PyG's ``Data``."""

    def collate(self, encoded: Sequence[Any], multiple: int = 1) -> Arguments:
        """Return the arguments of the network, see `collate`."""
        return collate(encoded)

    def size(self, encoded: Any) -> int:
        """Return the number of nodes."""
        return len(encoded.x)

    def batches(
        self, encoded: Sequence[Any], batch_size: int, seed: int
    ) -> Callable[[int], Sequence[Sequence[int]]]:
        """Return the function from an epoch to batches in random order."""
        return shuffled(encoded, batch_size, seed)


def collate(graphs: Sequence[Any]) -> Arguments:
    """Return a batch of graphs: x, edge_index, edge_attr, graph of each node, number of graphs."""
    from torch_geometric.data import Batch

    joined: Any = Batch.from_data_list(list(graphs))
    return joined.x, joined.edge_index, joined.edge_attr, joined.batch, len(graphs)


EXACT_DEGREE = 16  # larger degrees share a label up to the next power of two


@dataclass(frozen=True)
class FeatureCode:
    """The conversion of labels or numbers to features.

    Each label has a column, and all labels that training did not have share one more. Numbers are
    standardized, except for columns of zeros and ones and for constant ones; a column of ones
    follows them, so that a product of features can leave a node or an edge out.

    Args:
        labels: Labels of the training graphs; empty for numbers.
        means: Subtracted from each number.
        scales: Divided by.
        integer_columns: Columns of integers, which together can serve as a label.
    """

    labels: tuple[Any, ...] = ()
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    integer_columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what `find` never returns, since the values may come from a file."""
        is_one = bool(self.labels) != bool(self.means) and len(self.means) == len(self.scales)
        if not is_one or min(self.scales, default=1) <= 0:
            raise ValueError("the features are neither labels nor numbers with means and scales")
        if any(isinstance(label, list | dict) for label in self.labels):
            raise ValueError("a label is not plain")
        if any(not 0 <= column < len(self.means) for column in self.integer_columns):
            raise ValueError("a column is out of range")

    @classmethod
    def find(cls, parts: Iterable[Values]) -> FeatureCode:
        """Return the code of the labels or numbers of the training graphs."""
        known = [part for part in parts if part is not None and len(part)]
        if isinstance(known[0], tuple):
            return cls(tuple(sorted({v for part in known for v in part}, key=_order)))
        numbers = np.concatenate([np.asarray(part, dtype=np.float64) for part in known])
        means, scales = numbers.mean(0), numbers.std(0)
        constant = np.ptp(numbers, axis=0) == 0
        is_binary = np.isin(numbers, (0.0, 1.0)).all(0)
        size = np.abs(numbers[0])
        means = np.where(constant | is_binary, 0.0, means)
        scales = np.where(is_binary | (constant & (size == 0)), 1.0, scales)
        scales = np.where(constant & ~is_binary & (size > 0), size, scales)
        are_integers = np.flatnonzero((numbers == np.round(numbers)).all(0))
        columns = (means, scales, are_integers)
        return cls((), *(tuple(column.tolist()) for column in columns))

    @property
    def width(self) -> int:
        """Number of features."""
        return (len(self.labels) or len(self.means)) + 1

    @property
    def description(self) -> str:
        """The kind of values, for messages."""
        return "labels" if self.labels else _numbers(len(self.means))

    def as_labels(self, values: Values) -> list[Any] | None:
        """Return labels, or integers as labels; None if there are neither."""
        if isinstance(values, tuple):
            return list(values)
        if values is None or not self.integer_columns:
            return None
        numbers = np.asarray(values)[:, list(self.integer_columns)].astype(int)
        return [tuple(row) for row in numbers.tolist()]

    def unknown(self, values: Values) -> list[Any]:
        """Return the labels that training did not have."""
        if not self.labels or not isinstance(values, tuple):
            return []
        known = set(self.labels)
        return [label for label in values if label not in known]

    def encode(self, values: Values) -> Tensor:
        """Return the features ``(N, width)`` of values of the kind that `description` names."""
        if isinstance(values, tuple):
            places = {label: i for i, label in enumerate(self.labels)}
            codes = torch.tensor([places.get(label, len(places)) for label in values])
            return torch.nn.functional.one_hot(codes.long(), self.width).float()
        table = (np.asarray(values) - np.asarray(self.means)) / np.asarray(self.scales)
        return torch.from_numpy(np.pad(table, ((0, 0), (0, 1)), constant_values=1.0)).float()


@dataclass(frozen=True)
class GraphInputs(GraphBatches):
    """The conversion of graphs to PyG's ``Data`` of features.

    Args:
        nodes: Features of the nodes, of their degrees if they have no labels or numbers.
        edges: Features of the edges; None if they have none.
        has_degrees: True if the labels of the nodes are their degrees.
    """

    nodes: FeatureCode
    edges: FeatureCode | None
    has_degrees: bool

    @classmethod
    def find(cls, graphs: Sequence[PlainGraph]) -> GraphInputs:
        """Return the inputs of training graphs.

        Raises:
            DataError: The graphs have features of different kinds; the message names a row.
        """
        with_edges = [graph for graph in graphs if graph.edge_index.size]
        nodes, edges = [g.nodes for g in graphs], [g.edges for g in with_edges]
        for values, members, what in ((nodes, graphs, "node"), (edges, with_edges, "edge")):
            for own, graph in zip(values, members, strict=True):
                _require_kind(own, _kind(values[0]), graph.row, what, f"X[{members[0].row}] has")
        has_degrees = nodes[0] is None
        return cls(
            FeatureCode.find([degrees(graph) for graph in graphs] if has_degrees else nodes),
            FeatureCode.find(edges) if edges and edges[0] is not None else None,
            has_degrees,
        )

    def encode(self, X: Sequence[PlainGraph]) -> list[Any]:
        """Return each graph as ``Data`` with x, edge_index and, if there are any, edge_attr.

        Raises:
            DataError: A graph has features of another kind than the training graphs.
        """
        return [self._encode(graph) for graph in X]

    def _encode(self, graph: PlainGraph) -> Any:
        from torch_geometric.data import Data

        self._require_kinds(graph)
        edges = None
        if self.edges is not None:
            is_empty = not graph.edge_index.size
            edges = torch.zeros(0, self.edges.width) if is_empty else self.edges.encode(graph.edges)
        return Data(
            x=self.nodes.encode(self._node_values(graph)),
            edge_index=torch.from_numpy(np.ascontiguousarray(graph.edge_index)),
            edge_attr=edges,
        )

    def labeled(self, graph: PlainGraph) -> tuple[Graph]:
        """Return the graph with a label for each node, and for each edge if edges have any.

        Nodes whose numbers are not integers are labeled by their degree.

        Raises:
            DataError: The graph has features of another kind than the training graphs.
        """
        self._require_kinds(graph)
        nodes = self.nodes.as_labels(self._node_values(graph)) or list(degrees(graph))
        edges = None if self.edges is None else self.edges.as_labels(graph.edges)
        return (Graph(nodes, torch.from_numpy(graph.edge_index), edges),)

    def unknown(self, graphs: Sequence[PlainGraph]) -> list[Any]:
        """Return the label of each node whose label the training graphs lack."""
        return [v for graph in graphs for v in self.nodes.unknown(self._node_values(graph))]

    def _node_values(self, graph: PlainGraph) -> Values:
        return degrees(graph) if self.has_degrees else graph.nodes

    def _require_kinds(self, graph: PlainGraph) -> None:
        usual = "the training graphs have"
        expected = None if self.has_degrees else self.nodes.description
        _require_kind(graph.nodes, expected, graph.row, "node", usual)
        if graph.edge_index.size:
            expected = None if self.edges is None else self.edges.description
            _require_kind(graph.edges, expected, graph.row, "edge", usual)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values.

        Raises:
            DataError: JSON cannot hold a label.
        """
        for code in (self.nodes, self.edges):
            for label in code.labels if code else ():
                if not isinstance(label, PLAIN):
                    fix = "Use texts or integers as labels."
                    raise DataError(f"the label {label!r} cannot be saved", fix=fix)
        return asdict(self)


def degrees(graph: PlainGraph) -> tuple[int, ...]:
    """Return the degree of each node as a label: exact up to 16, then a power of two."""
    counts: NDArray[Any] = np.bincount(graph.edge_index[1], minlength=graph.count)
    return tuple(n if n <= EXACT_DEGREE else 2 ** (n - 1).bit_length() for n in counts.tolist())


def _kind(values: Values) -> str | None:
    if values is None:
        return None
    return "labels" if isinstance(values, tuple) else _numbers(values.shape[1])


def _numbers(count: int) -> str:
    return f"{count} number{'s' if count > 1 else ''}"


def _require_kind(values: Values, expected: str | None, row: int, what: str, usual: str) -> None:
    kind = _kind(values)
    if kind != expected:
        got = f"{kind} per {what}" if kind else f"no {what} features"
        wanted = expected or "none"
        raise DataError(f"X[{row}] has {got}; {usual} {wanted}")


def _order(label: Any) -> tuple[str, Any]:
    is_ordered = isinstance(label, PLAIN)
    return type(label).__name__, label if is_ordered else repr(label)
