"""All algorithms for the random-walk kernel agree with the definition."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from representer.data.molecules import read_smiles
from representer.errors import ArgumentError
from representer.functional import local_kernel_definition, walk_kernel_definition
from representer.kernels import (
    Gaussian,
    InversePolynomial,
    Linear,
    Polynomial,
    RandomWalkKernel,
    StringKernel,
    walk_kernels,
)

claim = settings(deadline=None, max_examples=6)
seeds = st.integers(0, 2**16)
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def draw(count: int, seed: int, d: int = 2, nodes: int = 6, edges: int = 9) -> list[Data]:
    g = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        N = int(torch.randint(1, nodes, (), generator=g))
        E = int(torch.randint(0, edges, (), generator=g))
        graphs.append(
            Data(
                x=torch.randn(N, d, generator=g, dtype=torch.float64),
                edge_index=torch.randint(0, N, (2, E), generator=g),
                edge_attr=torch.randn(E, 2, generator=g, dtype=torch.float64),
            )
        )
    return graphs


def labeled(graphs: list[Data], count: int = 3) -> list[nx.MultiDiGraph]:
    """Return the same graphs with words as features of nodes and edges."""
    made = []
    for graph in graphs:
        other = nx.MultiDiGraph()
        words = ["abc"[int(10 * x.abs().sum()) % count] for x in graph.x]
        other.add_nodes_from((v, {"x": word}) for v, word in enumerate(words))
        for (u, v), e in zip(graph.edge_index.T.tolist(), graph.edge_attr, strict=True):
            other.add_edge(u, v, edge_attr="-="[int(10 * e.abs().sum()) % 2])
        made.append(other)
    return made


def literal(kernel: RandomWalkKernel, G: Data, H: Data) -> torch.Tensor:
    edges = G.edge_attr @ H.edge_attr.T if kernel.edges else None
    S = G.x @ H.x.T
    if kernel.combine == "multiply":
        return walk_kernel_definition(
            S, G.edge_index, H.edge_index, kernel.order, kernel.decay, edges
        )
    return local_kernel_definition(
        S, G.edge_index, H.edge_index, kernel.order, kernel.decay,
        combine=kernel.combine, edge_similarities=edges,
    ).sum()  # fmt: skip


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("combine", "edges"), [*product(["multiply", "add"], [False, True])])
@claim
@given(n=st.integers(1, 3), lam=st.sampled_from([0.0, 0.3, 1.0]), seed=seeds)
def test_features_and_pairs_match_the_definition(explicit, combine, edges, n, lam, seed):
    kernel = RandomWalkKernel(n, lam, combine, edges=edges)
    kernel._has_features = lambda x, y: explicit  # rounding of two algorithms
    X = draw(4, seed)
    expected = torch.stack([torch.stack([literal(kernel, a, b) for b in X]) for a in X])
    torch.testing.assert_close(kernel(X), expected, **CLOSE)
    torch.testing.assert_close(kernel(X, X[1:]), expected[:, 1:], **CLOSE)
    torch.testing.assert_close(kernel.diag(X), expected.diagonal(), **CLOSE)


@pytest.mark.parametrize("edges", [False, True])
@claim
@given(n=st.integers(1, 3), seed=seeds)
def test_walk_counts_of_labels_match_the_definition(edges, n, seed):
    words = labeled(draw(4, seed))
    kernel = RandomWalkKernel(n, 0.5, edges=edges)
    expected = np.empty((4, 4))
    for i, j in product(range(4), repeat=2):
        sides = (words[i], words[j])
        (x, y), (e, f) = (
            [[a for *_, a in g.nodes(data="x")] for g in sides],
            [[a for *_, a in g.edges(data="edge_attr")] for g in sides],
        )
        S = torch.tensor([[float(a == b) for b in y] for a in x], dtype=torch.float64)
        T = torch.tensor([[float(a == b) for b in f] for a in e], dtype=torch.float64)
        ends = [torch.tensor(list(g.edges(keys=False))).reshape(-1, 2).T.long() for g in sides]
        expected[i, j] = walk_kernel_definition(
            S, *ends, n, 0.5, T.reshape(len(e), len(f)) if edges else None
        )
    np.testing.assert_allclose(kernel(words), expected, atol=1e-12)
    np.testing.assert_allclose(kernel(words, words[2:]), expected[:, 2:], atol=1e-12)
    np.testing.assert_allclose(kernel.diag(words), expected.diagonal(), atol=1e-12)


@claim
@given(n=st.integers(1, 3), seed=seeds)
def test_labels_without_counts_are_equivalent_to_one_hot_features(n, seed):
    words = labeled(draw(4, seed))
    for combine, nonlinear in (("add", False), ("multiply", "polynomial"), ("add", "polynomial")):
        hot = []
        for graph in words:
            rows = [[float(w == letter) for letter in "abc"] for *_, w in graph.nodes(data="x")]
            ends = torch.tensor(list(graph.edges(keys=False))).reshape(-1, 2).T.long()
            hot.append(Data(x=torch.tensor(rows, dtype=torch.float64), edge_index=ends))
        kernel = RandomWalkKernel(n, 0.5, combine, nonlinear)
        np.testing.assert_allclose(kernel(words), kernel(hot).numpy(), atol=1e-12)


@pytest.mark.parametrize("nonlinear", [InversePolynomial(), Gaussian(2.0), Polynomial(2)])
@claim
@given(n=st.integers(1, 3), seed=seeds)
def test_an_activated_local_kernel_depends_on_the_squares_of_both_nodes(nonlinear, n, seed):
    X = draw(3, seed)
    for graph in X:
        graph.x = 0.3 * torch.nn.functional.normalize(graph.x, dim=1)
    kernel = RandomWalkKernel(n, 0.2, nonlinear=nonlinear)

    def local(G: Data, H: Data, order: int) -> torch.Tensor:
        def activate(K: torch.Tensor, j: int) -> torch.Tensor:
            own = [local(g, g, j).diagonal() for g in (G, H)]
            return nonlinear.of_products(K, own[0][:, None], own[1])

        S = G.x @ H.x.T
        ends = G.edge_index, H.edge_index
        return local_kernel_definition(S, *ends, order, 0.2, activate=activate)

    expected = torch.stack([torch.stack([local(a, b, n).sum() for b in X]) for a in X])
    torch.testing.assert_close(kernel(X), expected, **CLOSE)
    torch.testing.assert_close(kernel.diag(X), expected.diagonal(), **CLOSE)


@pytest.mark.parametrize("base", [Gaussian(0.7), Polynomial(2) * Gaussian() + 0.5 * Linear()])
def test_a_base_kernel_compares_two_nodes(base):
    X = draw(3, 1)
    kernel = RandomWalkKernel(2, base=base)
    for i, j in product(range(3), repeat=2):
        S = base(X[i].x, X[j].x)
        expected = walk_kernel_definition(S, X[i].edge_index, X[j].edge_index, 2, 1.0)
        torch.testing.assert_close(kernel(X)[i, j], expected, **CLOSE)


def test_delta_compares_feature_vectors_as_labels():
    edge = torch.tensor([[0], [1]])
    G = Data(x=torch.tensor([[2.0, 1.0], [3.0, 1.0]]), edge_index=edge)
    H = Data(x=torch.tensor([[2.0, 1.0], [3.0, 0.0]]), edge_index=edge)
    assert RandomWalkKernel(1, base="delta")([G], [G, H]).tolist() == [[2, 1]]
    assert RandomWalkKernel(2, base="delta")([G], [G, H]).tolist() == [[1, 0]]
    for graph in (G, H):
        graph.edge_attr = graph.x[:1]
    assert RandomWalkKernel(2, base="delta", edges=True)([G], [G]).tolist() == [[1]]


def test_the_result_does_not_depend_on_the_block_size(monkeypatch):
    X = draw(9, 5)
    kernel = RandomWalkKernel(3, 0.5, nonlinear="polynomial")
    whole, cross = kernel(X), kernel(X[:4], X)
    for nodes in (1, 5, 7):
        monkeypatch.setattr(walk_kernels, "NODES", nodes)
        torch.testing.assert_close(kernel(X), whole, **CLOSE)
        torch.testing.assert_close(kernel(X[:4], X), cross, **CLOSE)


@pytest.mark.parametrize("kernel", [RandomWalkKernel(3), RandomWalkKernel(2, 0.5, "add", "linear")])
def test_features_and_decay_get_gradients(kernel):
    X = draw(3, 2)
    decay = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    kernel.set_params(decay=decay)

    def of(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
        X[0].x = x
        return kernel.set_params(decay=decay)(X)

    assert torch.autograd.gradcheck(of, (X[0].x.clone().requires_grad_(), decay))


def test_graphs_without_edges_or_nodes_have_no_walks():
    empty = Data(x=torch.zeros(0, 2), edge_index=torch.zeros(2, 0).long())
    lonely = Data(x=torch.ones(1, 2), edge_index=torch.zeros(2, 0).long())
    assert RandomWalkKernel(1)([empty, lonely]).tolist() == [[0, 0], [0, 2]]
    for options in ({}, {"combine": "add"}, {"nonlinear": "polynomial"}, {"base": "delta"}):
        kernel = RandomWalkKernel(2, **options)
        assert not kernel([empty, lonely]).any()
        assert kernel.diag([empty, empty, lonely, empty]).tolist() == [0] * 4
    assert RandomWalkKernel(1)(
        list(map(read_smiles, ("C", "CC"))), [read_smiles("O")]
    ).tolist() == [[0], [0]]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"order": 0}, "order is 0; expected a positive integer"), ({"order": 2.0}, "order is 2.0"),
    ({"decay": -0.1}, "decay is -0.1; expected a non-negative number"),
    ({"decay": "learned"}, "decay is 'learned'"), ({"decay": True}, "decay is True"),
    ({"combine": "sum"}, "combine is 'sum'; expected 'multiply' or 'add'"),
    ({"nonlinear": "tanh"}, "nonlinear is 'tanh'; .* tanh has no power series"),
    ({"nonlinear": True}, "nonlinear is True; expected a kernel of vectors"),
    ({"nonlinear": "sine"}, "nonlinear is 'sine'; expected one of"),
    ({"base": "cosine"}, "base is 'cosine'; expected 'linear', 'delta' or"),
    ({"base": StringKernel()}, r"base is StringKernel\(\); expected 'linear', 'delta' or"),
    ({"edges": 1}, "edges is 1; expected True or False"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        RandomWalkKernel(**arguments)
    with pytest.raises(ArgumentError, match=message):
        RandomWalkKernel().set_params(**arguments)([read_smiles("C")])
