"""The Weisfeiler-Lehman kernel through features for graphs that come later."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.errors import ArgumentError
from representer.kernels import WeisfeilerLehmanKernel
from representer.kernels.graphs import Graph
from representer.kernels.subtree_kernel import SubtreeKernel

RNG = np.random.default_rng(0)


def graph() -> Graph:
    count, edges = int(RNG.integers(1, 8)), int(RNG.integers(0, 12))
    ends = torch.from_numpy(RNG.integers(0, count, (2, edges)))
    labels = ["ab"[i] for i in RNG.integers(0, 2, count)]
    return Graph(labels, ends, RNG.integers(0, 2, edges).tolist())


GRAPHS = [graph() for _ in range(12)]


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_it_is_the_normalized_weisfeiler_lehman_kernel(depth, edges):
    exact = WeisfeilerLehmanKernel(depth=depth, edges=edges).cosine()
    plain = [Graph(g.nodes, g.edge_index, g.edges if edges else None) for g in GRAPHS]
    kernel = SubtreeKernel(depth, edges).fit(GRAPHS)
    np.testing.assert_allclose(kernel(GRAPHS), exact(plain), atol=1e-12)
    np.testing.assert_allclose(kernel(GRAPHS[:4], GRAPHS[4:]), exact(plain)[:4, 4:], atol=1e-12)
    np.testing.assert_allclose(kernel.diag(GRAPHS), 1)


@pytest.mark.parametrize("damped", [False, True])
def test_the_parts_of_all_nodes_sum_to_the_features(damped):
    kernel = SubtreeKernel(2, edges=True, damped=damped).fit(GRAPHS[:6])
    for one, row in zip(GRAPHS, kernel.transform(GRAPHS).toarray(), strict=True):
        total = np.zeros_like(row)
        for part in kernel.occurrences(one):
            total[part.column] += part.value
        np.testing.assert_allclose(total, row, atol=1e-12)


def test_a_color_that_was_not_seen_has_no_feature_and_neither_has_what_contains_it():
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    known, other = Graph(["a", "a", "a"], path, None), Graph(["a", "a", "z"], path, None)
    kernel = SubtreeKernel(2).fit([known])
    found = {(part.level, part.node) for part in kernel.occurrences(other)}
    assert found == {(0, 0), (0, 1), (1, 0)}  # node 1 has the neighbor z, and so on


def test_what_was_fitted_is_restored():
    kernel = SubtreeKernel(2, edges=True).fit(GRAPHS[:6])
    other = SubtreeKernel(2, edges=True).restore(*kernel.fitted())
    assert np.array_equal(other.transform(GRAPHS).toarray(), kernel.transform(GRAPHS).toarray())
    tokens, arrays = kernel.fitted()
    with pytest.raises(ValueError, match="colors of level 1 are repeated"):
        kernel.restore(tokens | {"level 1": tokens["level 1"] * 2}, arrays)


def test_a_depth_out_of_its_range_is_refused():
    with pytest.raises(ArgumentError, match="depth is -1; expected 0 or more"):
        SubtreeKernel(-1)
