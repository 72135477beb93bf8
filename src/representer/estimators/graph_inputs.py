"""Graphs as inputs of a network: one column per label, standardized numbers, or degrees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from representer.errors import ArgumentError, DataError, KindError
from representer.estimators.base import PLAIN
from representer.estimators.fitting import Inputs
from representer.functional import tree_depths
from representer.kernels.graphs import BATCHES, Graph, graphs_of_batch
from representer.kernels.sequences import records_of
from representer.kernels.tree_kernels import tree_of

# Graphs as users have them, PyG's ``Data`` or networkx graphs, read and checked.

Labels = tuple[Any, ...]
Values = Labels | NDArray[np.float64] | None  # labels, numbers (N, d), or nothing


@dataclass(frozen=True, eq=False)
class PlainGraph:
    """A graph without the conventions of a library."""

    row: int  # its row in X, for messages
    count: int  # number of nodes
    # source and target of each edge ``(2, E)``; undirected edges in both directions
    edge_index: NDArray[np.int64]
    nodes: Values  # labels or features of the nodes
    edges: Values  # labels or features of the edges


def read_graphs(X: Any, *, trees: bool = False) -> list[PlainGraph]:
    """Read a sequence of PyG ``Data`` objects, networkx graphs, or dictionaries.

    They may be a dataset or ``Batch`` of PyG; those that were read before are returned as they are.
    Dictionaries, or the rows of a table, have nested lists or arrays ``edge_index``, ``num_nodes``,
    ``x`` or ``node_feat``, and ``edge_attr``, as graph datasets of Hugging Face do. With ``trees``,
    bracketed strings and nested tuples are read, too, as `kernels.TreeKernel` does, and edges lead
    from child to parent.
    """
    X = X.to_data_list() if hasattr(X, "to_data_list") else X
    if _is_data(X) or _is_networkx(X) or (trees and isinstance(X, str)):
        raise DataError("X is one graph; expected a sequence of graphs", fix="Pass [graph].")
    graphs = [_read(graph, row, trees) for row, graph in enumerate(records_of(X))]
    for tree in graphs if trees else ():
        ends = torch.from_numpy(np.ascontiguousarray(tree.edge_index))
        tree_depths(ends, tree.count, f"X[{tree.row}].edge_index")
    return graphs


def _read(graph: Any, row: int, trees: bool) -> PlainGraph:
    if isinstance(graph, PlainGraph):
        return graph
    if (count := graphs_of_batch(graph)) != 1:
        raise DataError(f"X[{row}] is a batch of {count} graphs; expected one graph", fix=BATCHES)
    if _is_data(graph):
        result = _read_data(graph, row)
    elif _is_networkx(graph):
        result = _read_networkx(graph, row)
    elif isinstance(graph, Mapping) and "edge_index" in graph:
        result = _read_data(_Record(graph, row), row)
    elif trees and isinstance(graph, (str, tuple, list)):
        result = _read_tree(graph, row)
    else:
        type_name = type(graph).__name__
        expected = f"a PyG Data or a networkx graph{' or a tree in brackets' * trees}"
        problem = f"X[{row}] is of type {type_name}; expected {expected}"
        raise DataError(problem)
    if not result.count:
        raise DataError(f"X[{row}] has no nodes", fix="Leave this row out.")
    ends = result.edge_index
    if ends.size and not (ends.min() >= 0 and ends.max() < result.count):
        wrong = int(ends.min()) if ends.min() < 0 else int(ends.max())
        nodes = f"its nodes are 0 to {result.count - 1}"
        raise DataError(f"X[{row}] has an edge of node {wrong} in edge_index; {nodes}")
    for what, values, count in (
        ("nodes", result.nodes, result.count),
        ("edges", result.edges, ends.shape[1]),
    ):
        if values is not None and len(values) != count:
            problem = f"X[{row}] has {len(values)} rows of features for {count} {what}"
            raise DataError(problem)
        if isinstance(values, np.ndarray) and not np.isfinite(values).all():
            row_of, column = np.argwhere(~np.isfinite(values))[0].tolist()
            problem = f"X[{row}] has the feature {values[row_of, column]} at {what[:-1]} {row_of}"
            raise DataError(problem, fix="Replace it by a finite number.")
    return result


class _Record:
    """The tensors of a dictionary, with the names that PyG's ``Data`` has."""

    def __init__(self, values: Mapping[str, Any], row: int) -> None:
        self.num_nodes = values.get("num_nodes")
        nodes = "x" if values.get("x") is not None else "node_feat"
        for name, key in (("edge_index", "edge_index"), ("x", nodes), ("edge_attr", "edge_attr")):
            setattr(self, name, _tensor(values.get(key), row, key))
        if self.edge_index is not None and not self.edge_index.numel():
            self.edge_index = None

    def __contains__(self, name: str) -> bool:
        return getattr(self, name) is not None


def _tensor(values: Any, row: int, name: str) -> Tensor | None:
    if values is None or isinstance(values, Tensor):
        return values
    try:
        array = np.asarray([np.asarray(value) for value in values])
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        raise DataError(f"X[{row}] has {name!r} that is no array of numbers") from None


def _is_data(graph: Any) -> bool:
    is_other = isinstance(graph, PlainGraph | Dataset) or hasattr(graph, "iloc")
    return hasattr(graph, "edge_index") and not is_other


def _is_networkx(graph: Any) -> bool:
    return hasattr(graph, "adj") and hasattr(graph, "is_directed")


def _read_data(data: Any, row: int) -> PlainGraph:
    edge_index = data.edge_index
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    is_tensor = isinstance(edge_index, Tensor)
    if not is_tensor or edge_index.dim() != 2 or len(edge_index) != 2:
        got = tuple(edge_index.shape) if is_tensor else type(edge_index).__name__
        raise DataError(f"X[{row}] has an edge_index of {got}; expected a tensor (2, E)")
    ends = edge_index.detach().cpu().numpy().astype(np.int64)
    nodes = _from_tensor(getattr(data, "x", None), row, "x")
    edges = _from_tensor(getattr(data, "edge_attr", None), row, "edge_attr")
    if nodes is not None:
        count = len(nodes)
    elif "num_nodes" in data:
        count = int(data.num_nodes)
    else:
        count = int(ends.max()) + 1 if ends.size else 0
    return PlainGraph(row, count, ends, nodes, edges)


def _from_tensor(values: Any, row: int, name: str) -> Values:
    """Return integers of one column as labels, other numbers as features."""
    if values is None:
        return None
    if not isinstance(values, Tensor) or values.dim() not in (1, 2) or values.is_complex():
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise DataError(f"X[{row}] has an {name} of {got}; expected a real tensor (N, d)")
    array = values.detach().cpu()
    table = array[:, None] if array.dim() == 1 else array
    if not array.is_floating_point() and table.shape[1] == 1:
        return tuple(table[:, 0].tolist())
    return table.double().numpy()


def _read_networkx(graph: Any, row: int) -> PlainGraph:
    numbers = {node: i for i, node in enumerate(graph.nodes)}
    ends: list[tuple[int, int]] = []
    attributes: list[dict[str, Any]] = []
    for u, v, entry in graph.edges(data=True):
        both = not graph.is_directed() and u != v
        ends += [(numbers[u], numbers[v])] + ([(numbers[v], numbers[u])] if both else [])
        attributes += [entry, entry] if both else [entry]
    nodes = _attributes([entry for _, entry in graph.nodes(data=True)], "x", row, "node")
    edges = _attributes(attributes, "edge_attr", row, "edge")
    edge_index = np.asarray(ends, dtype=np.int64).reshape(-1, 2).T
    return PlainGraph(row, len(numbers), edge_index, nodes, edges)


def _read_tree(written: Any, row: int) -> PlainGraph:
    try:
        tree = tree_of(written, f"X[{row}]")
    except (ArgumentError, KindError) as error:
        raise DataError(str(error)) from error
    labels = tuple(_label(label, row, "node") for label in tree.nodes)
    return PlainGraph(row, len(labels), tree.edge_index.numpy(), labels, None)


def _attributes(given: Sequence[dict[str, Any]], name: str, row: int, what: str) -> Values:
    """Return the attribute `name`, or the attribute ``label``, of all nodes or edges."""
    for chosen in (name, "label"):
        values = [attributes[chosen] for attributes in given if chosen in attributes]
        if not values:
            continue
        if len(values) < len(given):
            problem = f"X[{row}] has {len(given) - len(values)} {what}s without {chosen!r}"
            raise DataError(problem, fix=f"Set it for every {what}, or for none.")
        if chosen == "label" or any(isinstance(value, str) for value in values):
            return tuple(_label(value, row, what) for value in values)
        return _numbers(values, row, chosen)
    return None


def _label(value: Any, row: int, what: str) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        hash(plain)
    except TypeError:
        type_name = type(value).__name__
        raise DataError(f"X[{row}] has a {type_name} as the label of a {what}") from None
    return plain


def _numbers(values: Sequence[Any], row: int, name: str) -> NDArray[np.float64]:
    rows = [np.atleast_1d(np.asarray(value)) for value in values]
    widths = sorted({len(row_numbers) for row_numbers in rows if row_numbers.ndim == 1})
    if len(widths) != 1 or any(row_numbers.ndim != 1 for row_numbers in rows):
        raise DataError(f"X[{row}] has {name!r} of lengths {widths}; expected one length")
    try:
        return np.stack(rows).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"X[{row}] has {name!r} that are not numbers") from None


Arguments = tuple[Tensor, Tensor, Tensor | None, Tensor, int]


class GraphBatches(Inputs):
    """The part of `Inputs` that all graphs share, once they are PyG's ``Data``."""

    def collate(self, encoded: Sequence[Any], multiple: int = 1) -> Arguments:
        """Return the arguments of the network, see `collate`."""
        return collate(encoded)

    def size(self, encoded: Any) -> int:
        """Return the number of nodes."""
        return len(encoded.x)


def collate(graphs: Sequence[Any]) -> Arguments:
    """Return a batch of graphs: x, edge_index, edge_attr, graph of each node, number of graphs."""
    from torch_geometric.data import Batch

    joined: Any = Batch.from_data_list(list(graphs))
    return joined.x, joined.edge_index, joined.edge_attr, joined.batch, len(graphs)


MOST_COLUMNS = 256  # of labels in an encoded graph; those of more labels are made for each batch
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
        present = [values for values in parts if values is not None and len(values)]
        if isinstance(present[0], tuple):
            return cls(tuple(sorted({v for values in present for v in values}, key=_order)))
        numbers = np.concatenate([np.asarray(values, dtype=np.float64) for values in present])
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
        return "labels" if self.labels else _count_of_numbers(len(self.means))

    def as_labels(self, values: Values) -> list[Any] | None:
        """Return labels, or integers as labels; None if there are neither."""
        if isinstance(values, tuple):
            return list(values)
        if values is None or not self.integer_columns:
            return None
        numbers = np.asarray(values)[:, list(self.integer_columns)].astype(int)
        return [tuple(row) for row in numbers.tolist()]

    def real_columns(self) -> list[int]:
        """Return the columns of numbers that are no integers."""
        return [k for k in range(len(self.means)) if k not in self.integer_columns]

    def unknown(self, values: Values) -> list[Any]:
        """Return the labels that training did not have."""
        if not self.labels or not isinstance(values, tuple):
            return []
        labels = set(self.labels)
        return [label for label in values if label not in labels]

    def encode(self, values: Values) -> Tensor:
        """Return the features ``(N, width)`` of values of the kind that `description` names."""
        return self.columns(self.codes(values))

    def columns(self, codes: Tensor) -> Tensor:
        """Return the features ``(N, width)``, given what `codes` returns."""
        if codes.dim() == 2:
            return codes
        return torch.nn.functional.one_hot(codes, self.width).float()

    def codes(self, values: Values, at_most: int = 0) -> Tensor:
        """Return the position of each label ``(N,)``, or the features of up to so many labels."""
        if isinstance(values, tuple):
            places = {label: i for i, label in enumerate(self.labels)}
            codes = torch.tensor([places.get(label, len(places)) for label in values]).long()
            return self.columns(codes) if len(places) <= at_most else codes
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
            for matrix, graph in zip(values, members, strict=True):
                _require_kind(matrix, _kind(values[0]), graph.row, what, f"X[{members[0].row}] has")
        has_degrees = nodes[0] is None
        return cls(
            FeatureCode.find([degrees(graph) for graph in graphs] if has_degrees else nodes),
            FeatureCode.find(edges) if edges and edges[0] is not None else None,
            has_degrees,
        )

    def collate(self, encoded: Sequence[Any], multiple: int = 1) -> Arguments:
        x, edge_index, edge_attr, of_graph, count = collate(encoded)
        return self.nodes.columns(x), edge_index, edge_attr, of_graph, count

    def encode(self, X: Sequence[PlainGraph]) -> list[Any]:
        """Return each graph as ``Data`` with x, edge_index and, if there are any, edge_attr.

        x has the features of each node, or, of more than 256 labels, the position of its label.

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
            x=self.nodes.codes(self._node_values(graph), at_most=MOST_COLUMNS),
            edge_index=torch.from_numpy(np.ascontiguousarray(graph.edge_index)),
            edge_attr=edges,
        )

    def labeled(self, graph: PlainGraph) -> tuple[Graph]:
        """Return the graph with a label for each node, and for each edge if edges have any.

        Nodes without an integer among their numbers are labeled by their degree.

        Raises:
            DataError: The graph has features of another kind than the training graphs.
        """
        self._require_kinds(graph)
        nodes = self.nodes.as_labels(self._node_values(graph)) or list(degrees(graph))
        edges = None if self.edges is None else self.edges.as_labels(graph.edges)
        return (Graph(nodes, torch.from_numpy(graph.edge_index), edges),)

    def summary_names(self) -> tuple[str, ...]:
        """Return the names of the numbers of `summary`, none if nodes and edges have integers."""
        return tuple(
            f"{statistic} of number {k + 1} of the {what}"
            for what, code in (("nodes", self.nodes), ("edges", self.edges)) if code
            for statistic in ("mean", "spread") for k in code.real_columns()
        )  # fmt: skip

    def summary(self, graph: PlainGraph) -> NDArray[np.float64]:
        """Return the mean and the standard deviation of each number that is no integer ``(D,)``.

        A graph without edges has NaN for their numbers.
        """
        self._require_kinds(graph)
        parts = [np.zeros(0)]
        for code, values in ((self.nodes, graph.nodes), (self.edges, graph.edges)):
            if code and (columns := code.real_columns()):
                rows = np.asarray(values if graph.edge_index.size or code is self.nodes else [])
                table = rows[:, columns] if len(rows) else np.full((1, len(columns)), np.nan)
                parts += [table.mean(0), table.std(0)]
        return np.concatenate(parts)

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
        """Return plain values."""
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
    return "labels" if isinstance(values, tuple) else _count_of_numbers(values.shape[1])


def _count_of_numbers(count: int) -> str:
    return f"{count} number{'s' if count > 1 else ''}"


def _require_kind(values: Values, expected: str | None, row: int, what: str, usual: str) -> None:
    received = _kind(values)
    if received != expected:
        got = f"{received} per {what}" if received else f"no {what} features"
        wanted = expected or "none"
        raise DataError(f"X[{row}] has {got}; {usual} {wanted}")


def _order(label: Any) -> tuple[str, Any]:
    is_ordered = isinstance(label, PLAIN)
    return type(label).__name__, label if is_ordered else repr(label)
