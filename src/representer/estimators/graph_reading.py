"""Graphs as users have them, PyG's ``Data`` or networkx graphs, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from representer.errors import DataError
from representer.estimators.containers import records_of

Labels = tuple[Any, ...]
Values = Labels | NDArray[np.float64] | None  # labels, numbers (N, d), or nothing


@dataclass(frozen=True, eq=False)
class PlainGraph:
    """A graph without the conventions of a library.

    Attributes:
        row: Its row in X, for messages.
        count: Number of nodes.
        edge_index: Source and target of each edge ``(2, E)``; undirected edges in both directions.
        nodes: Labels or features of the nodes.
        edges: Labels or features of the edges.
    """

    row: int
    count: int
    edge_index: NDArray[np.int64]
    nodes: Values
    edges: Values


def read_graphs(X: Any) -> list[PlainGraph]:
    """Read a sequence of PyG ``Data`` objects, networkx graphs, or dictionaries.

    Args:
        X: The graphs, or a dataset or ``Batch`` of PyG; those that were read before are returned
            as they are. Dictionaries, or the rows of a table, have nested lists or arrays
            ``edge_index``, ``num_nodes``, ``x`` or ``node_feat``, and ``edge_attr``, as graph
            datasets of Hugging Face do.

    Raises:
        DataError: One cannot be used; the message names its row.
    """
    X = X.to_data_list() if hasattr(X, "to_data_list") else X
    if _is_data(X) or _is_networkx(X):
        raise DataError("X is one graph; expected a sequence of graphs", fix="Pass [graph].")
    return [_read(graph, row) for row, graph in enumerate(records_of(X))]


def _read(graph: Any, row: int) -> PlainGraph:
    if isinstance(graph, PlainGraph):
        return graph
    if _is_data(graph):
        result = _read_data(graph, row)
    elif _is_networkx(graph):
        result = _read_networkx(graph, row)
    elif isinstance(graph, Mapping) and "edge_index" in graph:
        result = _read_data(_Record(graph, row), row)
    else:
        kind = type(graph).__name__
        problem = f"X[{row}] is of type {kind}; expected a PyG Data or a networkx graph"
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
            at, column = np.argwhere(~np.isfinite(values))[0].tolist()
            problem = f"X[{row}] has the feature {values[at, column]} at {what[:-1]} {at}"
            raise DataError(problem, fix="Replace it by a finite number.")
    return result


class _Record:
    """The tensors of a dictionary, with the names that PyG's ``Data`` has."""

    def __init__(self, values: Mapping[str, Any], row: int) -> None:
        self.num_nodes = values.get("num_nodes")
        nodes = "x" if values.get("x") is not None else "node_feat"
        for name, given in (("edge_index", "edge_index"), ("x", nodes), ("edge_attr", "edge_attr")):
            setattr(self, name, _tensor(values.get(given), row, given))
        if self.edge_index is not None and not self.edge_index.numel():
            self.edge_index = None

    def __contains__(self, name: str) -> bool:
        return getattr(self, name) is not None


def _tensor(values: Any, row: int, name: str) -> Tensor | None:
    if values is None or isinstance(values, Tensor):
        return values
    try:
        array = np.asarray([np.asarray(one) for one in values])
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
    own = values.detach().cpu()
    table = own[:, None] if own.dim() == 1 else own
    if not own.is_floating_point() and table.shape[1] == 1:
        return tuple(table[:, 0].tolist())
    return table.double().numpy()


def _read_networkx(graph: Any, row: int) -> PlainGraph:
    place = {node: i for i, node in enumerate(graph.nodes)}
    ends: list[tuple[int, int]] = []
    attributes: list[dict[str, Any]] = []
    for u, v, own in graph.edges(data=True):
        both = not graph.is_directed() and u != v
        ends += [(place[u], place[v])] + ([(place[v], place[u])] if both else [])
        attributes += [own, own] if both else [own]
    nodes = _attributes([own for _, own in graph.nodes(data=True)], "x", row, "node")
    edges = _attributes(attributes, "edge_attr", row, "edge")
    edge_index = np.asarray(ends, dtype=np.int64).reshape(-1, 2).T
    return PlainGraph(row, len(place), edge_index, nodes, edges)


def _attributes(given: Sequence[dict[str, Any]], name: str, row: int, what: str) -> Values:
    """Return the attribute `name`, or the attribute ``label``, of all nodes or edges."""
    for chosen in (name, "label"):
        values = [own[chosen] for own in given if chosen in own]
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
        kind = type(value).__name__
        raise DataError(f"X[{row}] has a {kind} as the label of a {what}") from None
    return plain


def _numbers(values: Sequence[Any], row: int, name: str) -> NDArray[np.float64]:
    rows = [np.atleast_1d(np.asarray(value)) for value in values]
    widths = sorted({len(own) for own in rows if own.ndim == 1})
    if len(widths) != 1 or any(own.ndim != 1 for own in rows):
        raise DataError(f"X[{row}] has {name!r} of lengths {widths}; expected one length")
    try:
        return np.stack(rows).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"X[{row}] has {name!r} that are not numbers") from None
