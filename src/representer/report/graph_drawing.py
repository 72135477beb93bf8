"""Drawings of graphs with the contribution of each node as a colored map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from representer.errors import MissingExtraError
from representer.report.canvas import glow

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

WIDTH, HEIGHT, MARGIN, RADIUS = 460, 340, 30, 11


def draw_graph(
    nodes: Sequence[str], edges: Sequence[Sequence[int]], by_node: Sequence[float]
) -> Markup:
    """Draw a graph as SVG: blue nodes raise the score of the prediction, red nodes lower it.

    Nodes are numbered as in the names of walks.

    Args:
        nodes: The label of each node; empty for none.
        edges: Pairs of nodes, in any direction.
        by_node: Contribution of each node.
    """
    from markupsafe import Markup

    spots = _layout(len(nodes), edges)
    marks = glow([(x, y, share) for (x, y), share in zip(spots, by_node, strict=True)], 3 * RADIUS)
    pairs = {(min(u, v), max(u, v)) for u, v in edges if u != v}
    lines = [(*spots[u], *spots[v]) for u, v in sorted(pairs)]
    dots = [(x, y, label, k) for k, ((x, y), label) in enumerate(zip(spots, nodes, strict=True))]
    shown = {"marks": marks, "lines": lines, "dots": dots, "radius": RADIUS}
    return Markup(_template().render(width=WIDTH, height=HEIGHT, **shown))


def _layout(count: int, edges: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return the place of each node in the picture."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from((u, v) for u, v in edges)
    start = nx.kamada_kawai_layout(graph) if count > 1 and nx.is_connected(graph) else None
    found = start or nx.spring_layout(graph, seed=0, k=1.6 / max(1, count) ** 0.5, iterations=200)
    low = [min(place[axis] for place in found.values()) for axis in (0, 1)]
    size = [max(place[axis] for place in found.values()) - low[axis] or 1.0 for axis in (0, 1)]
    inner = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN)
    return [
        tuple(MARGIN + inner[a] * (found[v][a] - low[a]) / size[a] for a in (0, 1))
        for v in range(count)
    ]  # type: ignore[return-value]


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtraError("the report", "jinja2", "train") from error
    text = Path(__file__).with_name("graph_drawing.svg").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(text)
