"""Drawings of graphs with the contribution of each node as a colored map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from representer.errors import MissingExtraError
from representer.report.canvas import glow, not_drawn

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

WIDTH, HEIGHT, MARGIN, RADIUS = 460, 340, 30, 11
MOST_NODES, MOST_EDGES = 150, 2000  # of a graph that is drawn
_ROUNDS = 60


def draw_graph(
    nodes: Sequence[str], edges: Iterable[Sequence[int]], by_node: Sequence[float]
) -> Markup | str:
    """Draw a graph as SVG: blue nodes raise the score of the prediction, red nodes lower it.

    Nodes are numbered as in the names of walks.

    Args:
        nodes: The label of each node; empty for none.
        edges: Pairs of nodes, in any direction.
        by_node: Contribution of each node.

    Returns:
        The drawing; of a large graph a sentence instead.
    """
    from markupsafe import Markup

    pairs = distinct_edges(edges)
    if sentence := too_large(len(nodes), len(pairs)):
        return sentence
    inner = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN)
    spots = (MARGIN + positions(len(nodes), pairs) * inner).tolist()
    marks = glow([(x, y, share) for (x, y), share in zip(spots, by_node, strict=True)], 3 * RADIUS)
    lines = [(*spots[u], *spots[v]) for u, v in pairs]
    dots = [(x, y, label, k) for k, ((x, y), label) in enumerate(zip(spots, nodes, strict=True))]
    shown = {"marks": marks, "lines": lines, "dots": dots, "radius": RADIUS}
    return Markup(_template().render(width=WIDTH, height=HEIGHT, **shown))


def distinct_edges(edges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return each edge once, in one direction; without loops, which are not drawn."""
    return sorted({(min(u, v), max(u, v)) for u, v in edges if u != v})


def too_large(nodes: int, edges: int) -> str:
    """Return the sentence that a graph is not drawn; an empty text if it is."""
    return not_drawn(nodes, MOST_NODES, "nodes") or not_drawn(edges, MOST_EDGES, "edges")


def positions(count: int, edges: Iterable[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the places of the nodes of a graph in the unit square, ``(count, 2)``.

    Distances in the picture are made like those in the graph by stress majorization (Gansner, Koren
    and North 2004), from classical scaling on.

    Args:
        count: Number of nodes, at most `MOST_NODES`, since the time grows with its cube.
        edges: Pairs of nodes, in any direction.
    """
    import networkx as nx

    if count < 2:
        return np.full((count, 2), 0.5)
    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    steps = np.asarray(nx.floyd_warshall_numpy(graph, range(count)))
    steps[np.isinf(steps)] = 1 + np.max(steps, initial=0, where=np.isfinite(steps))
    squares = steps**2
    centered = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    values, vectors = np.linalg.eigh(-centered / 2)
    spots = (vectors * np.sqrt(np.maximum(values, 0)))[:, :-3:-1]  # the longest axis first
    spots = spots + np.random.default_rng(0).normal(scale=0.01, size=spots.shape)  # no two coincide
    weights = (steps > 0) / (steps + np.eye(count)) ** 2
    solve = np.linalg.inv(np.diag(weights.sum(1)) - weights + 1 / count) - 1 / count
    for _ in range(_ROUNDS):
        lengths = np.hypot(*(spots.T[:, :, None] - spots.T[:, None]))
        pulls = weights * steps / np.maximum(lengths, 1e-9)
        spots = solve @ (np.diag(pulls.sum(1)) - pulls) @ spots
    sizes = np.ptp(spots, axis=0)
    widths = np.maximum(sizes, max(sizes) / 20)  # a path remains a line
    return (spots - spots.min(0)) / widths + (1 - sizes / widths) / 2


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtraError("the report", "jinja2", "train") from error
    text = Path(__file__).with_name("graph_drawing.svg").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(text)
