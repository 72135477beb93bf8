"""Walk kernels on small graphs, computed by hand."""

from __future__ import annotations

import pytest
import torch

from representer.functional import local_kernel_definition, walk_kernel_definition
from representer.functional.walks import walks

F64 = torch.float64


def graph(features: list, edges: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    both = [*edges, *((v, u) for u, v in edges)]
    return torch.tensor(features, dtype=F64), torch.tensor(both).T


A, B, C = [1, 0, 0], [0, 1, 0], [0, 0, 1]
E1, P3 = graph([A, B], [(0, 1)]), graph([A, B, A], [(0, 1), (1, 2)])
T3, S4 = graph([A, B, B], [(0, 1), (1, 2), (0, 2)]), graph([A, B, B, C], [(0, 1), (0, 2), (0, 3)])
R2 = graph([[1, 2], [0, 1], [-1, 1]], [(0, 1), (1, 2)])
R3 = graph([[2, 0], [1, 1], [1, -1]], [(0, 1), (1, 2), (0, 2)])
BY_HAND = [
    (E1, P3, [3, 2, 1.5, 1]), (P3, T3, [4, 4, 4, 4]), (S4, T3, [5, 4, 5, 4]),
    (R2, R3, [0, -6, 0, 4.5]),
]  # fmt: skip


@pytest.mark.parametrize(("G", "H", "values"), BY_HAND, ids=["E1", "P3", "S4", "R2"])
def test_kernels_match_values_computed_by_hand(G, H, values):
    similarities = G[0] @ H[0].T
    for n, value in enumerate(values, start=1):
        assert float(walk_kernel_definition(similarities, G[1], H[1], n, 0.5)) == value
        assert float(local_kernel_definition(similarities, G[1], H[1], n, 0.5).sum()) == value


def test_walks_include_parallel_edges_and_loops():
    parallel = torch.tensor([[0, 0], [1, 1]])
    assert walks(parallel, 2, 2) == [([0, 1], [0]), ([0, 1], [1])]
    loop = torch.tensor([[0], [0]])
    assert walks(loop, 2, 3) == [([0, 0, 0], [0, 0])]
    assert len(walks(loop, 2, 1)) == 2


def test_edges_multiply_the_pairs_of_walks():
    one = torch.ones(2, 2, dtype=F64)
    edges = torch.tensor([[0, 0], [1, 1]])
    edge_similarities = torch.tensor([[2.0, 3.0], [5.0, 7.0]], dtype=F64)
    for function in (walk_kernel_definition, local_kernel_definition):
        K = function(one, edges, edges, 2, 1.0, edge_similarities=edge_similarities)
        assert float(K.sum()) == 17
    assert float(walk_kernel_definition(one, edges, edges, 1, 1.0, edge_similarities)) == 4


def test_addition_instead_of_multiplication_and_an_activation():
    one, edge = torch.ones(2, 2, dtype=F64), torch.tensor([[0], [1]])
    added = local_kernel_definition(3 * one, edge, edge, 2, 0.5, combine="add")
    assert added.tolist() == [[0, 0], [0, 4.5]]
    squared = local_kernel_definition(
        3 * one, edge, edge, 2, 0.5, activate=lambda K, j: K**2 + j - 1
    )
    assert squared.tolist() == [[0, 0], [0, 13.5]]
