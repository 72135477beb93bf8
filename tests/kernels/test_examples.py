"""Properties of all kernels of the table of examples."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from torch_geometric.data import Data

from representer.kernels import KERNELS, GramTransformer, Nystroem

every_kernel = pytest.mark.parametrize("name", KERNELS)
TOKENS = [name for name in KERNELS if "tokens" in name and "Gaussian" not in name]
LABELS = [name for name in KERNELS if "labels" in name]
differentiable = pytest.mark.parametrize("name", [n for n in KERNELS if n not in TOKENS + LABELS])


def objects(name, seed=0):
    """Return 14 objects, with vectors short enough for kernels with a limit."""
    rng = np.random.default_rng(seed)
    if KERNELS[name]().objects == "vectors":
        return 0.4 * rng.normal(size=(14, 3))
    if name in TOKENS:
        return ["".join(rng.choice(list("abc"), size=n % 8)) for n in range(14)]
    if KERNELS[name]().objects == "graphs":
        return [graph(n % 5 + 1, n % 8, rng, name in LABELS) for n in range(14)]
    if KERNELS[name]().objects == "trees":
        return [tree(1 + n % 6, rng, name in LABELS) for n in range(14)]
    return [0.2 * rng.normal(size=(n % 8, 3)) for n in range(14)]


def tree(nodes, rng, has_labels):
    made = nx.DiGraph()
    for v in range(nodes):
        made.add_node(v, x=str(rng.choice(list("ab"))) if has_labels else rng.normal(size=3))
        if v:
            made.add_edge(v, rng.integers(v), edge_attr=np.zeros(2))
    return made


def graph(nodes, edges, rng, has_labels):
    made = nx.MultiDiGraph()
    for v in range(nodes):
        made.add_node(v, x=str(rng.choice(list("abc"))) if has_labels else 0.3 * rng.normal(size=3))
    for u, v in rng.integers(nodes, size=(edges, 2)).tolist():
        feature = str(rng.choice(["-", "="])) if has_labels else 0.5 * rng.normal(size=2)
        made.add_edge(u, v, edge_attr=feature)
    return made


def as_data(made, x=None):
    numbers = np.stack([x for _, x in made.nodes(data="x")])
    bonds = np.array([e for *_, e in made.edges(data="edge_attr")]).reshape(-1, 2)
    ends = np.array([(u, v) for u, v in made.edges()]).reshape(-1, 2).astype(int)
    x = torch.from_numpy(numbers) if x is None else x
    ends, bonds = torch.from_numpy(ends.T.copy()), torch.from_numpy(bonds)
    return Data(x=x, edge_index=ends, edge_attr=bonds)


def as_tensors(X):
    if isinstance(X[0], nx.Graph):
        return [as_data(made) for made in X]
    return torch.from_numpy(X) if isinstance(X, np.ndarray) else [torch.from_numpy(x) for x in X]


@every_kernel
def test_the_gram_matrix_is_symmetric_positive_semidefinite(name):
    gram = KERNELS[name]()(objects(name))
    assert gram.any()
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.abs(gram).max()


@every_kernel
def test_the_kernel_of_two_lists_is_a_block_of_the_gram_matrix(name):
    kernel, X = KERNELS[name](), objects(name)
    whole = kernel(X)
    np.testing.assert_allclose(kernel(X[:5], X[3:]), whole[:5, 3:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel(X, X), whole, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), whole.diagonal(), rtol=1e-10, atol=1e-12)


@every_kernel
def test_kernels_work_in_a_classification_pipeline(name):
    X = objects(name)
    y = np.arange(14) % 2
    for step in (GramTransformer(KERNELS[name]()), Nystroem(KERNELS[name](), 20)):
        kind = "precomputed" if isinstance(step, GramTransformer) else "linear"
        model = make_pipeline(step, SVC(kernel=kind, C=1e3)).fit(X, y)
        assert model.predict(X[:3]).shape == (3,)


@differentiable
def test_tensors_and_arrays_give_equal_values(name):
    kernel, X = KERNELS[name](), objects(name)
    gram = kernel(as_tensors(X))
    assert isinstance(gram, torch.Tensor)
    assert isinstance(kernel.diag(as_tensors(X)), torch.Tensor)
    assert isinstance(kernel(X), np.ndarray)
    assert isinstance(kernel.diag(X), np.ndarray)
    np.testing.assert_allclose(gram, kernel(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("along_one_direction", [True, pytest.param(False, marks=pytest.mark.slow)])
@differentiable
def test_gradients_match_numerical_gradients(name, along_one_direction):
    kernel, raw = KERNELS[name](), objects(name)[2:6]
    X = as_tensors(raw)
    tensors = [X] if isinstance(X, torch.Tensor) else X
    if kernel.objects in ("graphs", "trees"):
        tensors = [data.x for data in X]
    inputs = [x.clone().requires_grad_() for x in tensors]

    def values(*X):
        X = X[0] if kernel.objects == "vectors" else X
        if kernel.objects in ("graphs", "trees"):
            X = [as_data(made, x) for made, x in zip(raw, X, strict=True)]
        if name.startswith("unit diagonal"):  # a constant diagonal breaks the fast mode
            return kernel(X[:1], X[1:])
        return kernel(X), kernel.diag(X), kernel(X[:1], X[1:])

    is_long = kernel.objects in ("graphs", "trees")
    assert torch.autograd.gradcheck(values, inputs, fast_mode=along_one_direction or is_long)
