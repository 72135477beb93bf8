"""The recurrence over trees, its exponential definition, and checks of edges."""

from __future__ import annotations

import pytest
import torch

from drawn_trees import F64, T, U, tree
from looped import looped
from representer.errors import ArgumentError
from representer.functional import (
    child_positions,
    tree_depths,
    tree_kernel_definition,
    tree_scan,
)
from representer.functional.walks import tree_chains

CLOSE = {"rtol": 1e-11, "atol": 1e-11}
HALF = torch.tensor(0.5, dtype=F64)


def products_of(tree, *references):
    return torch.einsum("vd,jd->vj", tree.x, torch.tensor(references, dtype=F64))[..., None]


def test_the_definition_has_the_values_of_the_enumeration():
    found = [
        [
            float(tree_kernel_definition(a.x @ b.x.T, a.edge_index, b.edge_index, n, 0.5, ordered))
            for a, b, ordered in ((T, U, False), (T, U, True), (T, T, False), (U, U, False))
        ]
        for n in (1, 2, 3)
    ]
    assert found == [[5.875, 5.875, 6.625, 6.25], [12, 6, 25, 10], [0, 0, 10, 0]]


def test_the_recurrence_has_the_values_of_the_enumeration():
    products = products_of(T, (1, 2), (2, 1))
    assert tree_scan(products, T.edge_index, decay=HALF)[0, :, 0].tolist() == [4.75, 22.5]
    gates = torch.tensor([0.5, 0.3, 0.6, 0.9], dtype=F64).logit()[:, None]
    states = tree_scan(
        products, T.edge_index, source_gate=gates, target_gate=torch.zeros_like(gates)
    )
    torch.testing.assert_close(states[0, :, 0], torch.tensor([4.21, 21.9], dtype=F64), **CLOSE)


@looped("order", [1, 2, 3, 4])
@looped("decay", [0.0, 0.4, 1.0, 1.5])
def test_the_recurrence_sums_over_all_chains_below_each_node(order, decay):
    """c_n[v] = sum of prod p_j[v_j] lam^(skipped) over the chains in the subtree of v."""
    G = tree(order, 9)
    products = torch.randn(9, order, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    depths = tree_depths(G.edge_index, 9).tolist()
    above = dict(G.edge_index.T.tolist())
    expected = torch.zeros(9, 2, dtype=F64)
    for chain in tree_chains(G.edge_index, 9, order):
        term = torch.stack([products[v, j] for j, v in enumerate(chain)]).prod(0)
        root = chain[-1]
        while root is not None:
            skipped = depths[chain[0]] - depths[root] + 1 - order
            expected[root] += decay**skipped * term
            root = above.get(root)
    found = tree_scan(products, G.edge_index, decay=torch.tensor(decay, dtype=F64))[:, -1]
    torch.testing.assert_close(found, expected, **CLOSE)


def test_the_factors_of_edges_multiply_the_steps_of_a_chain():
    products = products_of(U, (1, 2), (2, 1))
    factor = torch.tensor([3.0, 5.0], dtype=F64)[:, None, None]
    found = tree_scan(products, U.edge_index, decay=HALF, factor=factor)
    assert found[0, 1, 0] == 3 * (1 * 1) * 3 + 5 * (4 * 1) * 3


def test_the_gate_on_the_state_sees_the_activated_state_of_the_child():
    g = torch.Generator().manual_seed(0)
    products, target = (torch.randn(3, *shape, 2, generator=g, dtype=F64) for shape in ((1,), ()))
    weight = torch.randn(2, 2, generator=g, dtype=F64)
    found = tree_scan(
        products, U.edge_index, target_gate=target, state_gate=weight, scale=2.0, activation="tanh"
    )
    root = products[0, 0]
    for child in (1, 2):
        c = products[child, 0]
        root = root + 2 * torch.sigmoid(target[0] + weight @ torch.tanh(c)) * c
    torch.testing.assert_close(found[0, 0], root, **CLOSE)


def test_positions_count_the_edges_into_a_parent_in_their_order():
    edges = torch.tensor([[4, 1, 3, 2], [0, 2, 0, 0]])
    assert child_positions(edges, 5).tolist() == [0, 0, 1, 2]


def test_depths_count_the_edges_to_the_root():
    assert tree_depths(T.edge_index, 4).tolist() == [0, 1, 1, 2]
    deep = torch.stack((torch.arange(1, 1000), torch.arange(999)))
    assert tree_depths(deep, 1000).tolist() == list(range(1000))
    assert tree_depths(torch.zeros(2, 0).long(), 0).tolist() == []


@pytest.mark.parametrize(("edges", "message"), [
    ([[0, 1], [1, 0]], "a cycle above node 0"),
    ([[2], [2]], "a cycle above node 2"),
    ([[0, 1, 2, 2], [1, 2, 1, 0]], r"node 2 is 'the parents \[1, 0\]'"),
    ([[0, 0], [1, 1]], r"node 0 is 'the parents \[1, 1\]'"),
    ([[3, 0, 1, 2], [2, 1, 2, 0]], "a cycle above node 0"),
])  # fmt: skip
def test_cycles_and_second_parents_are_refused(edges, message):
    with pytest.raises(ArgumentError, match=message):
        tree_scan(torch.zeros(4, 1, 1), torch.tensor(edges), decay=torch.tensor(1.0))
