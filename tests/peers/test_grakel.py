"""GraKeL: its kernels on graphs that it generates, beside the exact kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from representer.kernels import RandomWalkKernel, WeisfeilerLehmanKernel

pytestmark = pytest.mark.peers
SEEDS = range(3)
KINDS = {
    "graphs": {},
    "sparse graphs": {"r_connectivity": (0.1, 0.3), "r_vertices": (1, 9)},
    "dense graphs": {"r_connectivity": (0.8, 1.0), "r_vertices": (2, 7)},
}
EACH = pytest.mark.parametrize(("kind", "seed"), [(k, s) for k in KINDS for s in SEEDS])


def generated(kind: str, seed: int, features: Any = ("nl", 3)) -> tuple[list[Any], list[Any]]:
    """Return graphs to fit and to compare with, which also have a label that the others lack."""
    from grakel.datasets import generate_dataset

    options = {"r_vertices": (1, 12), **KINDS[kind], "features": features, "random_state": seed}
    return generate_dataset(n_graphs=24, n_graphs_test=8, **options)


def as_data(graphs: list[Any], edges: bool = False) -> list[Data]:
    """Return the same graphs for the exact kernels."""
    found = []
    for matrix, labels, *more in graphs:
        ends = torch.from_numpy(np.argwhere(np.asarray(matrix) != 0).T.copy())
        x = torch.tensor([[labels[i]] for i in range(len(matrix))])
        attributes = None
        if edges:
            attributes = torch.tensor([[more[0][u, v]] for u, v in ends.T.tolist()]).view(-1, 1)
        found.append(Data(x=x, edge_index=ends, edge_attr=attributes))
    return found


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
@EACH
def test_weisfeiler_lehman_subtrees(kind: str, seed: int, depth: int):
    from grakel import VertexHistogram, WeisfeilerLehman

    train, test = generated(kind, seed)
    theirs = (
        WeisfeilerLehman(n_iter=depth, base_graph_kernel=VertexHistogram)
        if depth
        else VertexHistogram()
    )
    ours, x, y = WeisfeilerLehmanKernel(depth=depth), as_data(train), as_data(test)
    np.testing.assert_array_equal(ours(x), theirs.fit_transform(train))
    np.testing.assert_array_equal(ours(y, x), theirs.transform(test))


@EACH
def test_weisfeiler_lehman_scaled_to_a_unit_diagonal(kind: str, seed: int):
    from grakel import WeisfeilerLehman

    train, test = generated(kind, seed)
    theirs = WeisfeilerLehman(n_iter=3, normalize=True)
    ours, x, y = WeisfeilerLehmanKernel(depth=3).cosine(), as_data(train), as_data(test)
    np.testing.assert_allclose(ours(x), theirs.fit_transform(train), rtol=1e-12)
    np.testing.assert_allclose(ours(y, x), theirs.transform(test), rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 3])
@EACH
def test_random_walks_up_to_a_length(kind: str, seed: int, steps: int):
    """GraKeL sums λᵏ over the walks of k steps of both graphs, k = 0 … p."""
    from grakel import RandomWalk

    train, test = (graphs[:6] for graphs in generated(kind, seed))
    theirs = RandomWalk(lamda=0.1, p=steps, method_type="baseline")
    x, y = ([_unlabeled(graph) for graph in as_data(own)] for own in (train, test))
    ours = [RandomWalkKernel(n + 1, 0.1) for n in range(steps + 1)]
    np.testing.assert_allclose(sum(k(x) for k in ours), theirs.fit_transform(train), rtol=1e-9)
    np.testing.assert_allclose(sum(k(y, x) for k in ours), theirs.transform(test), rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 3])
@EACH
def test_random_walks_of_equal_labels(kind: str, seed: int, steps: int):
    """Without steps, GraKeL counts all pairs of nodes, whatever their labels."""
    from grakel import RandomWalkLabeled

    train, test = (graphs[:6] for graphs in generated(kind, seed))
    theirs = RandomWalkLabeled(lamda=0.1, p=steps)
    x, y = as_data(train), as_data(test)
    pairs = RandomWalkKernel(1)
    ours = [RandomWalkKernel(n + 1, 0.1, base="delta") for n in range(1, steps + 1)]
    for own, other, expected in (
        (x, x, theirs.fit_transform(train)),
        (y, x, theirs.transform(test)),
    ):
        all_pairs = pairs([*map(_unlabeled, own)], [*map(_unlabeled, other)])
        found = all_pairs + sum(k(own, other) for k in ours)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@EACH
def test_histograms_of_edges(kind: str, seed: int):
    from grakel import EdgeHistogram

    train, test = generated(kind, seed, ("nl", 3, "el", 3))
    x, y = ([_unlabeled(graph) for graph in as_data(own, True)] for own in (train, test))
    theirs, ours = EdgeHistogram(), RandomWalkKernel(2, base="delta", edges=True)
    np.testing.assert_allclose(ours(x), theirs.fit_transform(train))
    np.testing.assert_allclose(ours(y, x), theirs.transform(test))


def _unlabeled(graph: Data) -> Data:
    return Data(
        x=torch.ones(len(graph.x), 1, dtype=torch.float64),
        edge_index=graph.edge_index, edge_attr=graph.edge_attr,
    )  # fmt: skip
