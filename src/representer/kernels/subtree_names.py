"""Names of subtrees: a node and its neighbors in parentheses, level by level."""

from __future__ import annotations

from collections import Counter

from representer.kernels.graphs import Graph

LONGEST, LISTED = 72, 3  # characters of a name; equal neighbors that are listed one by one


class SubtreeNames:
    """Names of the subtrees of a graph, such as ``C(C,=O)``.

    Args:
        graph: A graph with a label for each node, and perhaps for each edge.
        has_edges: Name the labels of the edges before those of the neighbors.
    """

    def __init__(self, graph: Graph, *, has_edges: bool) -> None:
        self._labels = [str(label) for label in graph.nodes]
        self._around: list[list[tuple[str, int]]] = [[] for _ in self._labels]
        self._known: dict[tuple[int, int], str] = {}
        kinds = [str(kind) for kind in graph.edges] if has_edges and graph.edges else None
        for edge, (source, target) in enumerate(graph.edge_index.T.tolist()):
            kind = kinds[edge] if kinds else ""
            space = " " if kind[-1:].isalnum() else ""
            self._around[target].append((kind + space, source))

    def __call__(self, node: int, level: int) -> str:
        """Return the name of the subtree of so many levels below a node, cut if it is long."""
        if not level or not self._around[node]:
            return self._labels[node]
        if (node, level) not in self._known:
            around = self._around[node]
            below = Counter(kind + self(other, level - 1) for kind, other in around)
            listed = [
                ",".join([name] * count) if count <= LISTED else f"{count}×{name}"
                for name, count in sorted(below.items())
            ]
            name = f"{self._labels[node]}({','.join(listed)})"
            cut = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
            self._known[node, level] = cut
        return self._known[node, level]
