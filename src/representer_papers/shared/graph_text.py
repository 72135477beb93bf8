"""Reader of labeled graphs in the text format of the TU data sets, and of their folds.

NUMBER OF GRAPHS
NODES LABEL                 for each graph, followed by one line for each of its nodes:
TAG COUNT NEIGHBOR ...      nodes are numbered from 0; an edge is listed at both of its nodes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from representer.errors import DataError


@dataclass(frozen=True)
class LabeledGraph:
    """One graph of a file.

    Attributes:
        tags: Label of each node ``(N,)``.
        edge_index: Source and target ``(2, E)``, each edge in both directions.
        label: Label of the graph, as in the file.
    """

    tags: Tensor
    edge_index: Tensor
    label: int


def read_graph_text(path: Path) -> list[LabeledGraph]:
    """Read all graphs of a file, which may be compressed.

    Raises:
        DataError: If the file does not have this format; the error names the line.
    """
    rows = _rows(path)
    line, (count,) = _next(path, rows, 1, "the number of graphs")
    if count < 1:
        _refuse(path, line, f"the number of graphs is {count}")
    graphs = []
    for number in range(count):
        what = f"the number of nodes and the label of graph {number + 1} of {count}"
        line, (size, label) = _next(path, rows, 2, what)
        if size < 1:
            _refuse(path, line, f"graph {number + 1} has {size} nodes")
        graphs.append(_read_graph(path, rows, size, label))
    for line, _ in rows:
        _refuse(path, line, f"the file goes on after the {count} graphs that line 1 announces")
    return graphs


def read_folds(path: Path, count: int) -> np.ndarray:
    """Read the test fold 1, 2, … of each graph; an empty line gives 0, for no fold.

    Args:
        path: A file with one line for each graph.
        count: Number of graphs.

    Raises:
        DataError: If the number of lines differs, or a line is not a positive integer.
    """
    from representer.data.tables.source import physical_lines

    lines = [text.strip() for text in physical_lines(path)]
    for line, text in enumerate(lines, 1):
        if text and not (text.isascii() and text.isdigit() and int(text) > 0):
            _refuse(path, line, f"the fold is {text!r}, not a positive integer")
    if len(lines) != count:
        _refuse(path, len(lines), f"the file has {len(lines)} lines for {count} graphs")
    return np.array([int(text or 0) for text in lines])


def _read_graph(
    path: Path, rows: Iterator[tuple[int, list[int]]], size: int, label: int
) -> LabeledGraph:
    tags, pairs, lines = [], [], []
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
    edges_both_ways = set(pairs)
    for source, target in pairs:
        if (target, source) not in edges_both_ways:
            problem = f"node {source} lists neighbor {target}, but not the other way round"
            _refuse(path, lines[source], problem)
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    return LabeledGraph(torch.tensor(tags), edges.T.contiguous(), label)


def _rows(path: Path) -> Iterator[tuple[int, list[int]]]:
    from representer.data.tables.source import physical_lines

    for line, text in enumerate(physical_lines(path), 1):
        words = text.split()
        if not all(re.fullmatch("-?[0-9]{1,18}", word) for word in words):
            _refuse(path, line, f"{text.strip()[:40]!r} is not a list of integers")
        numbers = [int(word) for word in words]
        if numbers:
            yield line, numbers


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
