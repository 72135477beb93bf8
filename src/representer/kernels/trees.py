"""Reading of lists of trees: PyG ``Data``, bracketed strings or nested tuples."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import child_positions, tree_depths
from representer.kernels.graphs import Graph, GraphList, Graphs, read_graphs

FORMS = "a bracketed string such as '(S (NP dogs) (VP bark))', nested tuples or a PyG Data"
_WORDS = re.compile(r"[()]|[^\s()]+")


def read_trees(X: Iterable[Any], name: str = "X") -> Graphs:
    """Read a list of trees; several trees may be one object, whose roots are summed.

    Args:
        X: The trees. In a bracketed string ``(label child child …)``, a child is another pair of
            brackets or a word, the label of a leaf; a tuple ``(label, child, child, …)`` is the
            same. Of PyG ``Data``, and of directed networkx graphs, edges lead from child to parent
            and are ordered as the children; ``position`` ``(E, P)`` weights the positions of a
            child in place of its own.
        name: Their name in messages.

    Returns:
        The trees as graphs whose edges have the weights of the positions of their children.

    Raises:
        ArgumentError: If brackets do not match, a node has two parents, or edges form a cycle.
        KindError: If a tree has an unsupported type, or no features.
        ShapeError: If features, edges or positions have the wrong shape.
    """
    if isinstance(X, (str, bytes, dict)):
        hint = "Put a single tree into a list."
        raise KindError(name, type(X).__name__, f"a list of trees, each {FORMS}", hint=hint)
    raw = X.to_data_list() if hasattr(X, "to_data_list") else X  # type: ignore[attr-defined]
    is_tree = hasattr(raw, "edge_index") or hasattr(raw, "adj")
    if is_tree or not isinstance(raw, Iterable):
        return read_graphs(raw, name)  # which names the fix
    items = [_parsed(tree, f"{name}[{i}]") for i, tree in enumerate(raw)]
    graphs = read_graphs(items, name)
    trees = GraphList(
        replace(graph, edges=_positions(graph, tree, f"{name}[{i}]"))
        for i, (graph, tree) in enumerate(zip(graphs.items, items, strict=True))
    )
    return Graphs(trees, graphs.from_tensors)


def tree_of(tree: str | Sequence[Any], name: str = "tree") -> Graph:
    """Return a bracketed string or nested tuples as a graph with the label of each node.

    Nodes are in the order in which their labels appear, and edges in that of their children.
    """
    if isinstance(tree, str):
        tree = _nested(tree, name)
    labels: list[Hashable] = []
    parents: list[int] = []
    waiting: list[tuple[Any, int]] = [(tree, -1)]
    while waiting:
        node, parent = waiting.pop()
        label, *children = node if isinstance(node, (tuple, list)) and node else (node,)
        if isinstance(label, (tuple, list)):
            hint = "A leaf is a label, or a tuple of it alone."
            raise ArgumentError(name, node, "tuples (label, child, child, …)", hint=hint)
        try:
            hash(label)
        except TypeError:
            raise KindError(f"a label of {name}", type(label).__name__, "a string") from None
        waiting += [(child, len(labels)) for child in reversed(children)]
        labels.append(label)
        parents.append(parent)
    above = torch.tensor([parents, range(len(parents))]).flip(0)
    return Graph(labels, above[:, 1:])


def _nested(text: str, name: str) -> Any:
    """Return a bracketed string as nested lists, the first entry of which is the label."""
    words = _WORDS.findall(text)
    if len(words) == 1 and words[0] not in "()":
        return words[0]
    top: list[Any] = []
    inside = [top]
    for i, word in enumerate(words):
        if word == "(":
            inside[-1].append([])
            inside.append(inside[-1][-1])
            if words[i + 1 : i + 2] == ["("]:
                inside[-1].append("")  # the outer brackets of the Penn treebank have no label
        elif word != ")":
            inside[-1].append(word)
        elif len(inside) == 1 or not inside.pop():
            break
    else:
        if len(inside) == 1 and len(top) == 1 and isinstance(top[0], list):
            return top[0]
    hint = "Write brackets in words as -LRB- and -RRB-."
    expected = "one tree with a label after each opening bracket, such as (S (NP dogs) (VP bark))"
    short = text if len(text) <= 60 else f"{text[:57]}…"
    raise ArgumentError(name, short, expected, hint=hint)


def _parsed(tree: Any, name: str) -> Any:
    is_text = isinstance(tree, (str, tuple, list)) and not hasattr(tree, "edge_index")
    return tree_of(tree, name) if is_text else tree


def _positions(graph: Graph, raw: Any, name: str) -> Tensor:
    """Check the edges of a tree, and return the weights of the position of each child."""
    tree_depths(graph.edge_index, len(graph), f"{name}.edge_index")
    if isinstance(raw, Graph) and isinstance(raw.edges, Tensor):
        return raw.edges
    weights = getattr(raw, "position", None)
    if weights is None:
        ranks = child_positions(graph.edge_index, len(graph))
        return F.one_hot(ranks).double() if len(ranks) else torch.zeros(0, 1, dtype=torch.float64)
    if not isinstance(weights, Tensor) or weights.shape[:-1] != graph.edge_index.shape[1:]:
        got = tuple(weights.shape) if isinstance(weights, Tensor) else ()
        expected = f"({graph.edge_index.shape[1]}, positions), the weights of each edge"
        raise ShapeError(f"{name}.position", got, expected)
    return weights.double()
