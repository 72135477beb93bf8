"""Kernels of trees: values by enumeration, definitions written out, and equalities."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from drawn_trees import F64, U, path, tree
from representer.errors import ArgumentError
from representer.functional import tree_kernel_definition
from representer.kernels import (
    PartialTreeKernel,
    StringKernel,
    SubsetTreeKernel,
    TreeKernel,
    gram,
    tree_kernels,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
claim = settings(deadline=None, max_examples=6)
seeds, orders, decays = st.integers(0, 2**16), st.integers(1, 4), st.sampled_from([0, 0.5, 1, 1.3])
PARSED = [
    "(S (NP (D the) (N dog)) (VP (V sees) (NP (D the) (N cat))))",
    "(S (NP (D a) (N dog)) (VP (V sees)))",
    "(NP (D a) (A old) (N cat))",
    "(NP (D a) (A old) (A black) (N cat))",
]
PAIRS = ((0, 0), (0, 1), (1, 1), (2, 2), (2, 3))


def value(kernel, a, b):
    return float(kernel([a], [b])[0, 0])


@claim
@given(seed=seeds, n=orders, lam=decays, ordered=st.booleans(), roots=st.integers(1, 2))
def test_the_tree_kernel_is_the_sum_over_all_pairs_of_chains(seed, n, lam, ordered, roots):
    a, b = tree(seed, 7, roots=roots), tree(seed + 1, 6)
    found = TreeKernel(n, lam, ordered)([a], [b])[0, 0]
    edges = a.edge_index, b.edge_index
    torch.testing.assert_close(
        found, tree_kernel_definition(a.x @ b.x.T, *edges, n, lam, ordered), **CLOSE
    )


@claim
@given(seed=seeds, n=orders, lam=decays, ordered=st.booleans())
def test_trees_without_branches_have_the_string_kernel(seed, n, lam, ordered):
    g = torch.Generator().manual_seed(seed)
    X = [torch.randn(length, 2, generator=g, dtype=F64) for length in (1, 4, 6)]
    found = TreeKernel(n, min(lam, 1), ordered)([path(x) for x in X])
    torch.testing.assert_close(found, StringKernel(n, min(lam, 1))(X), **CLOSE)


@pytest.mark.parametrize("ordered", [False, True])
def test_labels_are_compared_for_equality(ordered):
    a, b = tree(0, 8), tree(1, 7)
    labels = [x.argmax(1).tolist() for x in (a.x, b.x)]
    kernel = TreeKernel(2, 0.5, ordered)
    numbers = [
        Data(x=torch.eye(3)[torch.tensor(own)], edge_index=made.edge_index)
        for own, made in zip(labels, (a, b), strict=True)
    ]
    words = [nested(made, list(map("abc".__getitem__, own)))
             for own, made in zip(labels, (a, b), strict=True)]  # fmt: skip
    np.testing.assert_allclose(kernel(words), kernel(numbers), **CLOSE)


def nested(made: Data, labels: list[str]) -> tuple:
    """Return a tree with labels as nested tuples."""
    below: dict[int, list[int]] = {v: [] for v in range(len(labels))}
    for child, parent in made.edge_index.T.tolist():
        below[parent].append(child)

    def of(v: int) -> tuple:
        return (labels[v], *map(of, below[v]))

    (root,) = set(below) - set(made.edge_index[0].tolist())
    return of(root)


def test_blocks_do_not_change_values(monkeypatch):
    trees = [tree(n, 1 + n % 7) for n in range(12)]
    words = [nested(made, ["ab"[int(x > 0)] for x in made.x[:, 0]]) for made in trees]
    kernels = (TreeKernel(2, 0.5, True), SubsetTreeKernel(0.5), PartialTreeKernel(0.5, 0.5))
    whole = [np.asarray(kernel(words)) for kernel in kernels]
    monkeypatch.setattr(tree_kernels, "NODES", 8)
    monkeypatch.setattr("representer.kernels.walk_kernels.NODES", 4)
    for kernel, expected in zip(kernels, whole, strict=True):
        np.testing.assert_allclose(kernel(words), expected, **CLOSE)
        np.testing.assert_allclose(kernel(words[:5], words[3:]), expected[:5, 3:], **CLOSE)


def test_a_gram_file_takes_trees(tmp_path):
    for trees in (PARSED, [tree(n) for n in range(4)]):
        kernel = TreeKernel(2, 0.5, ordered=True)
        found = gram(kernel, trees, out=tmp_path / f"{len(trees[0])}.npy", block=3)
        np.testing.assert_allclose(found, np.asarray(kernel(trees)), **CLOSE)


@pytest.mark.parametrize("ordered", [False, True])
def test_gradients_of_features_and_the_decay_match_numerical_gradients(ordered):
    a, b = tree(0, 5), tree(1, 6)

    def values(x, y, lam):
        X = [Data(x=x, edge_index=a.edge_index)], [Data(x=y, edge_index=b.edge_index)]
        return TreeKernel(2, lam, ordered)(*X), TreeKernel(2, lam, ordered).diag(X[0])

    inputs = [t.requires_grad_() for t in (a.x, b.x, torch.tensor(0.5, dtype=F64))]
    assert torch.autograd.gradcheck(values, inputs, fast_mode=True)
    zero = torch.tensor(0.0, dtype=F64, requires_grad=True)
    values(a.x, b.x, zero)[0].backward()
    assert torch.isfinite(zero.grad)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (SubsetTreeKernel(1.0), (84, 8, 24, 11, 3)),
        (SubsetTreeKernel(0.4), (7.913554944, 2.384, 3.657216, 2.2976, 1.2)),
        (PartialTreeKernel(1.0, 1.0), (393, 50, 61, 36, 46)),
        (
            PartialTreeKernel(0.4, 0.4),
            (2.089440509004, 1.003742839439, 0.864570531119, 0.639544059494, 0.730029854556),
        ),
        (
            PartialTreeKernel(0.9, 0.5),
            (16.869933863439, 7.518059613281, 6.725364029297, 4.984374867188, 5.848261319531),
        ),
    ],
    ids=repr,
)
def test_kernels_of_fragments_have_the_values_of_the_enumeration(kernel, expected):
    K = kernel(PARSED)
    np.testing.assert_allclose([K[pair] for pair in PAIRS], expected, rtol=1e-11)
    np.testing.assert_allclose(kernel.diag(PARSED), np.diag(K), rtol=1e-11)


def subset(a, b, lam):
    """Delta of Collins and Duffy, from nested tuples."""
    if len(a) == 1 or [a[0], *(u[0] for u in a[1:])] != [b[0], *(u[0] for u in b[1:])]:
        return 0
    return lam * np.prod([1 + subset(u, v, lam) for u, v in zip(a[1:], b[1:], strict=True)])


def partial(a, b, lam, mu):
    """Delta of Moschitti, as the sum over all subsequences of children."""
    if a[0] != b[0]:
        return 0
    total, (n, m) = lam**2, (len(a) - 1, len(b) - 1)
    for size in range(1, min(n, m) + 1):
        for J in combinations(range(n), size):
            for K in combinations(range(m), size):
                skipped = J[-1] - J[0] + K[-1] - K[0] + 2 - 2 * size
                values = [partial(a[j + 1], b[k + 1], lam, mu) for j, k in zip(J, K, strict=True)]
                total += lam**skipped * np.prod(values)
    return mu * total


def nodes(a):
    return [a, *(v for u in a[1:] for v in nodes(u))]


@claim
@given(seed=seeds, lam=st.sampled_from([0, 0.5, 1.2]), mu=st.sampled_from([0.3, 1]))
def test_kernels_of_fragments_are_the_sums_as_printed(seed, lam, mu):
    made = [tree(seed + n, 7) for n in range(2)]
    a, b = (nested(one, ["ab"[int(x > 0)] for x in one.x[:, 0]]) for one in made)
    pairs = [(u, v) for u in nodes(a) for v in nodes(b)]
    expected = sum(subset(u, v, lam) for u, v in pairs)
    np.testing.assert_allclose(value(SubsetTreeKernel(lam), a, b), expected, **CLOSE)
    expected = sum(partial(u, v, lam, mu) for u, v in pairs)
    np.testing.assert_allclose(value(PartialTreeKernel(lam, mu), a, b), expected, **CLOSE)


def test_features_of_fragments_are_compared_for_equality():
    codes = [Data(x=torch.tensor([[0.0], [1], [1]]), edge_index=U.edge_index)]
    assert SubsetTreeKernel(1.0)(codes) == SubsetTreeKernel(1.0)([("a", "b", "b")])


def test_the_decay_of_fragments_has_a_gradient():
    lam = torch.tensor(0.4, dtype=F64, requires_grad=True)
    for kernel in (SubsetTreeKernel, PartialTreeKernel):
        (slope,) = torch.autograd.grad(kernel(lam)(PARSED)[0, 1], lam)
        ends = [float(kernel(0.4 + step)(PARSED)[0, 1]) for step in (-1e-6, 1e-6)]
        assert float(slope) == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize(("make", "name"), [
    (lambda: TreeKernel(0), "order"), (lambda: TreeKernel(2, -0.1), "decay"),
    (lambda: TreeKernel(2, 0.5, "no"), "ordered"),
    (lambda: SubsetTreeKernel(float("inf")), "decay"), (lambda: PartialTreeKernel(0.4, -1), "mu"),
    (lambda: PartialTreeKernel(True), "decay"),
])  # fmt: skip
def test_arguments_are_checked(make, name):
    with pytest.raises(ArgumentError, match=f"{name} is"):
        make()
