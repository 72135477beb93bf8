"""Graphs in the live view: a drawing with the contributions of nodes, and other labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from representer.errors import DataError
from representer.estimators.explanation import Explanation
from representer.estimators.graph_reading import PlainGraph
from representer.report.graph_drawing import distinct_edges, positions, too_large
from representer.serving.live.kind import Change, Json, Kind


class Graphs(Kind):
    """Graphs as JSON."""

    prompt = "Graph as JSON"
    place = "node"

    def read(self, typed: Any) -> PlainGraph:
        """Return a graph; ``nodes`` is their number where they have no labels."""
        try:
            graph = json.loads(typed)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"the graph is not JSON: {error}") from None
        count = graph.get("nodes") if isinstance(graph, dict) else None
        if type(count) is not int:
            return super().read(graph)
        most = self.model.limits.max_nodes
        if not 0 < count <= most:
            raise DataError(f"the graph has {count} nodes; expected 1 to {most:,}")
        return replace(super().read(graph | {"nodes": [0] * count}), nodes=None)

    def typed(self, one: PlainGraph) -> str:
        """Return a graph as in a JSON Lines file."""
        edges: dict[tuple[int, int], list[Any]] = {}  # each in one direction
        values = [[]] * one.edge_index.shape[1] if one.edges is None else _plain(one.edges)
        for (u, v), value in zip(one.edge_index.T.tolist(), values, strict=True):
            edges.setdefault((min(u, v), max(u, v)), [u, v, *([] if value == [] else [value])])
        nodes = one.count if one.nodes is None else _plain(one.nodes)
        return json.dumps({"nodes": nodes, "edges": [*edges.values()]}, default=int)

    @property
    def has_changes(self) -> bool:
        """True if the nodes have labels."""
        inputs = self.model.estimator.inputs_
        return bool(inputs.nodes.labels) and not inputs.has_degrees

    def places(self, one: PlainGraph) -> Sequence[str]:
        """Return the labels of the nodes with their numbers."""
        return self.model.estimator._node_names(one)

    def picture(self, one: PlainGraph, explanation: Explanation) -> Json:
        """Return the places of the nodes in a square of side 1, and the edges."""
        edges = distinct_edges(one.edge_index.T.tolist())
        if sentence := too_large(one.count, len(edges)):
            return {"notes": [sentence]}
        return {"points": positions(one.count, edges).tolist(), "edges": [*map(list, edges)]}

    def changes(self, one: PlainGraph, place: int) -> Iterable[Change]:
        """Return graphs with each other label of the training at a node."""
        if not isinstance(one.nodes, tuple):
            return
        graph = json.loads(self.typed(one))
        for label in self.model.estimator.inputs_.nodes.labels:
            if label != one.nodes[place]:
                graph["nodes"][place] = label
                yield Change(str(label), json.dumps(graph))


def _plain(values: Any) -> list[Any]:
    return np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)
