"""Reader of the TU data sets of graphs in their common text format, with their folds.

NUMBER OF GRAPHS
NODES LABEL                 for each graph, followed by one line for each of its nodes:
TAG COUNT NEIGHBOR ...      nodes are numbered from 0; an edge is listed at both of its nodes
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch_geometric.data import Data

from representer.data.tables.reading import physical_lines
from representer.errors import DataError
from representer_papers.shared import datasets
from representer_papers.string_graph2017.published import GRAPH_SETS, GraphSet

OUTER = 10


class Fold(NamedTuple):
    """The numbers of the training and test graphs of a fold."""

    train: np.ndarray
    test: np.ndarray


def outer_folds(labels: np.ndarray, given: np.ndarray, repeat: int) -> list[Fold]:
    """Return the outer folds: those of the file in repeat 0, random ones seeded by other repeats.

    ``given`` is the test fold of each graph in the file, 0 for none.
    """
    if repeat == 0:
        numbers = range(1, OUTER + 1)
        return [Fold(np.flatnonzero(given != k), np.flatnonzero(given == k)) for k in numbers]
    drawn = StratifiedKFold(OUTER, shuffle=True, random_state=repeat).split(labels, labels)
    return [Fold(train, test) for train, test in drawn]


@dataclass(frozen=True)
class GraphFiles:
    """The files of a data set: its graphs and its folds."""

    dataset: GraphSet
    graphs: Path
    folds: Path

    @property
    def digest(self) -> str:
        """SHA-256 of both files."""
        return hashlib.sha256(self.graphs.read_bytes() + self.folds.read_bytes()).hexdigest()


@dataclass(frozen=True)
class GraphData:
    """The content of a data set."""

    graphs: list[Data]  # with the label of each node in x, as one column
    labels: np.ndarray  # the class of each graph, 0, 1, …
    folds: np.ndarray  # the test fold of each graph, 1 to 10; 0 for none
    has_degrees: bool  # node labels are degrees, because all labels in the file are equal


def locate_graphs(root: Path, names: Sequence[str]) -> list[GraphFiles]:
    """Find data sets in a folder, or in its folder ``tu``; see `located` for errors."""

    def find(root: Path, dataset: GraphSet) -> GraphFiles:
        name = f"{dataset.folder}/{dataset.folder}.txt"
        graphs = datasets.existing(root, ("", "tu"), (name,))
        if graphs is None:
            raise datasets.missing(f"{name}, nor tu/{name}, also compressed", root)
        folds = graphs.parent / "fold.txt"
        if not folds.is_file():
            raise DataError("there is no fold.txt in its folder", file=graphs)
        return GraphFiles(dataset, graphs, folds)

    return datasets.located(root, names, GRAPH_SETS, find)


def read_graph_set(place: GraphFiles, most: int | None = None) -> GraphData:
    """Read a data set, or ``most`` of its graphs, evenly spaced, for a smoke run."""
    parsed = [*read_graphs(place.graphs)]
    folds = read_folds(place.folds, len(parsed))
    absent = sorted(set(range(1, OUTER + 1)) - set(folds.tolist()))
    if absent or folds.max() > OUTER:
        problem = f"has no fold {absent[0]}" if absent else f"has a fold {folds.max()}"
        raise DataError(f"{problem}; there must be 1 … {OUTER}", file=place.folds)
    has_degrees = len(torch.cat([tags for tags, _, _ in parsed]).unique()) == 1
    graphs = []
    for tags, edge_index, _ in parsed:
        x = torch.bincount(edge_index[0], minlength=len(tags)) if has_degrees else tags
        graphs.append(Data(x=x[:, None].double(), edge_index=edge_index))
    labels = np.unique([label for _, _, label in parsed], return_inverse=True)[1]
    step = -(-len(graphs) // most) if most else 1
    return GraphData(graphs[::step], labels[::step], folds[::step], has_degrees)


def read_graphs(path: Path) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield the node labels ``(N,)``, the edge_index ``(2, E)`` and the label of each graph.

    Raises:
        DataError: If the file does not have this format; the error names the line.
    """
    rows = _rows(path)
    line, (count,) = _next(path, rows, 1, "the number of graphs")
    if count < 1:
        _refuse(path, line, f"the number of graphs is {count}")
    for number in range(count):
        what = f"the number of nodes and the label of graph {number + 1} of {count}"
        line, (size, label) = _next(path, rows, 2, what)
        if size < 1:
            _refuse(path, line, f"graph {number + 1} has {size} nodes")
        tags, edges = _read_graph(path, rows, size)
        yield tags, edges, label
    for line, _ in rows:
        _refuse(path, line, f"the file goes on after the {count} graphs that line 1 announces")


def read_folds(path: Path, count: int) -> np.ndarray:
    """Read the test fold 1, 2, … of each of ``count`` graphs; an empty line gives 0, for no fold.

    Raises:
        DataError: If the number of lines differs, or a line is not a positive integer.
    """
    lines = [text.strip() for text in physical_lines(path)]
    for line, text in enumerate(lines, 1):
        if text and not (text.isascii() and text.isdigit() and int(text) > 0):
            _refuse(path, line, f"the fold is {text!r}, not a positive integer")
    if len(lines) != count:
        _refuse(path, len(lines), f"the file has {len(lines)} lines for {count} graphs")
    return np.array([int(text or 0) for text in lines])


def _read_graph(
    path: Path, rows: Iterator[tuple[int, list[int]]], size: int
) -> tuple[Tensor, Tensor]:
    tags, lines, pairs = [], [], []
    for node in range(size):
        what = f"the tag and the neighbors of node {node} of {size}"
        line, (tag, claimed, *neighbors) = _next(path, rows, None, what)
        if claimed != len(neighbors):
            _refuse(path, line, f"{claimed} neighbors are announced, but {len(neighbors)} given")
        for neighbor in neighbors:
            if not 0 <= neighbor < size:
                _refuse(path, line, f"neighbor {neighbor} is not one of the nodes 0 … {size - 1}")
        tags.append(tag)
        lines.append(line)
        pairs += [(node, neighbor) for neighbor in neighbors]
    both_ways = set(pairs)
    for source, target in pairs:
        if (target, source) not in both_ways:
            problem = f"node {source} lists neighbor {target}, but not the other way round"
            _refuse(path, lines[source], problem)
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    return torch.tensor(tags), edges.T.contiguous()


def _rows(path: Path) -> Iterator[tuple[int, list[int]]]:
    for line, text in enumerate(physical_lines(path), 1):
        words = text.split()
        if not all(re.fullmatch("-?[0-9]{1,18}", word) for word in words):
            _refuse(path, line, f"{text.strip()[:40]!r} is not a list of integers")
        if words:
            yield line, [int(word) for word in words]


def _next(
    path: Path, rows: Iterator[tuple[int, list[int]]], size: int | None, what: str
) -> tuple[int, list[int]]:
    """Return the next non-empty line, which must have ``size`` numbers, or at least two."""
    line, numbers = next(rows, (None, []))
    if line is None:
        raise DataError(f"the file ends before {what}", file=path)
    if len(numbers) < 2 if size is None else len(numbers) != size:
        _refuse(path, line, f"expected {what}, found {len(numbers)} numbers")
    return line, numbers


def _refuse(path: Path, line: int, problem: str) -> NoReturn:
    raise DataError(problem, file=path, line=line)


# Many small graphs concatenated in a few tensors, for fast batching.


class GraphBatch(NamedTuple):
    """A batch of graphs as one disconnected graph, the input of graph layers."""

    x: Tensor  # (N, d)
    edge_index: Tensor  # (2, E)
    edge_attr: Tensor | None  # (E, K)
    batch: Tensor  # graph of each node (N,)
    y: Tensor  # target of each graph


class GraphStore:
    """Graphs with binary features, indexed by number and stored as bytes.

    Args:
        tensors: A return value of :meth:`tensors`.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self.y = tensors["y"]
        self._nodes, self._edges = _starts(tensors["nodes"]), _starts(tensors["edges"])

    @classmethod
    def of(cls, graphs: Sequence[Any], y: Tensor) -> GraphStore:
        """Concatenate PyG graphs with targets ``y``."""
        tensors = {
            "x": torch.cat([graph.x.to(torch.uint8) for graph in graphs]),
            "edge_index": torch.cat([graph.edge_index for graph in graphs], dim=1),
            "nodes": torch.tensor([len(graph.x) for graph in graphs]),
            "edges": torch.tensor([graph.edge_index.shape[1] for graph in graphs]),
            "y": y,
        }
        if graphs[0].edge_attr is not None:
            features = [graph.edge_attr.to(torch.uint8) for graph in graphs]
            tensors["edge_attr"] = torch.cat(features)
        return cls(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Return the stored tensors by name, for writing them to a file."""
        return dict(self._tensors)

    @property
    def features(self) -> int:
        """Number of features of a node."""
        return self._tensors["x"].shape[1]

    def __len__(self) -> int:
        return len(self.y)

    def __call__(self, numbers: Sequence[int] | np.ndarray) -> GraphBatch:
        """Return the graphs with these numbers, in this order."""
        chosen = torch.as_tensor(numbers)
        nodes, graph_of_node = _rows_of(self._nodes, chosen)
        edges, graph_of_edge = _rows_of(self._edges, chosen)
        sizes = self._nodes[chosen + 1] - self._nodes[chosen]
        first_node = sizes.cumsum(0) - sizes  # of each graph in the batch
        stored = self._tensors
        features = stored["edge_attr"][edges].float() if "edge_attr" in stored else None
        ends = stored["edge_index"][:, edges] + first_node[graph_of_edge]
        x = stored["x"][nodes].float()
        return GraphBatch(x, ends, features, graph_of_node, self.y[chosen])


Check = Callable[[], None]


def outputs_in_batches(
    model: nn.Module,
    store: GraphStore,
    numbers: Sequence[int] | np.ndarray,
    size: int,
    check: Check = lambda: None,
) -> Iterator[tuple[GraphBatch, Tensor]]:
    """Yield batches of the numbered graphs with the model's outputs; ``check`` runs in between."""
    for start in range(0, len(numbers), size):
        graphs = store(numbers[start : start + size])
        with torch.no_grad():
            outputs = model(graphs)
        yield graphs, outputs
        check()


def _starts(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))


def _rows_of(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the chosen graphs, and the position in ``chosen`` of each row."""
    first = starts[chosen]
    sizes = starts[chosen + 1] - first
    position = torch.repeat_interleave(sizes)
    within = torch.arange(len(position)) - (sizes.cumsum(0) - sizes)[position]
    return first[position] + within, position
