"""Walk kernels on small graphs, computed by hand."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ShapeError
from representer.functional import (
    local_kernel_definition,
    relabel,
    walk_kernel_definition,
    walk_states,
    walks_end,
)
from representer.functional.walks import edges_of

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


def test_addition_instead_of_multiplication_and_an_activation():
    one, edge = torch.ones(2, 2, dtype=F64), torch.tensor([[0], [1]])
    added = local_kernel_definition(3 * one, edge, edge, 2, 0.5, combine="add")
    assert added.tolist() == [[0, 0], [0, 4.5]]
    squared = local_kernel_definition(
        3 * one, edge, edge, 2, 0.5, activate=lambda K, j: K**2 + j - 1
    )
    assert squared.tolist() == [[0, 0], [0, 13.5]]


# States, ends of walks and relabeling, on small graphs by hand.


PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2
STAR = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])  # node 0 is the center


def one_hot(word: str) -> torch.Tensor:
    return torch.eye(3, dtype=F64)[["abc".index(letter) for letter in word]]


def states(word: str, edges: torch.Tensor, reference: str, decay: float) -> torch.Tensor:
    products = torch.einsum("vd,jd->vj", one_hot(word), one_hot(reference))[..., None]
    return walk_states(products, edges, decay=decay)[..., 0]


def test_states_match_values_computed_by_hand():
    assert states("aba", PATH, "ab", 1.0).T.tolist() == [[1, 0, 1], [0, 2, 0]]
    assert states("aba", PATH, "ab", 0.5).T.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert states("aba", PATH, "aba", 0.5)[:, 2].tolist() == [0.5, 0, 0.5]
    assert states("abbc", STAR, "bac", 0.5)[:, 2].tolist() == [0, 0, 0, 0.5]


def test_walks_end_at_the_targets_of_edges():
    chain = torch.tensor([[0, 1], [1, 2]])
    assert walks_end(chain, 4, 3).T.tolist() == [
        [True] * 4, [False, True, True, False], [False, False, True, False],
    ]  # fmt: skip
    loop = torch.tensor([[1], [1]])
    assert walks_end(loop, 2, 4).tolist() == [[True] + [False] * 3, [True] * 4]
    many = torch.zeros(2, 300, dtype=torch.int64)
    assert walks_end(many, 1, 9).all()


def test_additive_and_nonlinear_states_are_zero_where_no_walk_ends():
    chain = torch.tensor([[0, 1], [1, 2]])
    products = torch.ones(3, 3, 1, dtype=F64)
    assert walk_states(products, chain)[:, 2, 0].tolist() == [0, 0, 1]
    added = walk_states(products, chain, combine="add")[..., 0]
    assert added.T.tolist() == [[1, 1, 1], [0, 2, 2], [0, 0, 3]]
    squared = walk_states(products, chain, activation="polynomial")[..., 0]
    # (1 + 1)^2 / 4 = 1 from a node, then (0 + 1)^2 / 4 from one where no walk of 2 ends: set to 0
    assert squared.T.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]


def test_gates_and_edges_multiply_the_terms_of_a_sum():
    products = torch.ones(3, 2, 1, dtype=F64)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64)[:, None]
    gated = walk_states(products, PATH, gates=weights)
    bonded = walk_states(products, PATH, edge_products=weights[:, None])
    assert gated[:, 1, 0].tolist() == bonded[:, 1, 0].tolist() == [2, 5, 3]
    both = walk_states(products, PATH, gates=weights, edge_products=weights[:, None])
    assert both[:, 1, 0].tolist() == [4, 17, 9]


def test_relabeling_matches_values_computed_by_hand():
    x = torch.tensor([[1.0], [-2.0], [3.0]], dtype=F64)
    one = torch.ones(1, 1, dtype=F64)
    assert relabel(x, PATH, one, one, one).flatten().tolist() == [1, 2, 3]  # relu of -2 is 0
    assert relabel(x, PATH, one, -one, one).flatten().tolist() == [1, 0, 3]
    biased = relabel(x, PATH, one, one, one, bias=one[0], inner_bias=2 * one[0])
    assert biased.flatten().tolist() == [2, 7, 4]
    bonds = torch.tensor([[0.0], [4.0], [0.0], [0.0]], dtype=F64)  # the edge 1 -> 0
    shifted = relabel(x, PATH, one, one, one, edge_attr=bonds, edge_weight=one)
    assert shifted.flatten().tolist() == [3, 2, 3]


@pytest.mark.filterwarnings("ignore:Sparse")  # they are new in torch
def test_a_sparse_adjacency_has_an_entry_for_each_edge_in_the_row_of_its_target():
    adjacency = torch.tensor([[0.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for sparse in (adjacency.to_sparse(), adjacency.to_sparse_csr(), _Sparse(adjacency)):
        assert edges_of(sparse, 3).T.tolist() == [[2, 0], [0, 1]]
    with pytest.raises(ShapeError, match=r"expected \(4, 4\), a row for each node"):
        edges_of(adjacency.to_sparse(), 4)


class _Sparse:
    """A ``SparseTensor`` of torch_sparse, as far as it is used."""

    def __init__(self, dense: torch.Tensor) -> None:
        self._dense = dense

    def to_torch_sparse_coo_tensor(self) -> torch.Tensor:
        return self._dense.to_sparse()
