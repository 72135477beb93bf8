"""The laws of kernels, over every kernel of the table."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from representer.kernels import KERNELS, GramTransformer, Nystroem

every_kernel = pytest.mark.parametrize("name", KERNELS)
TOKENS = [name for name in KERNELS if "tokens" in name and "Gaussian" not in name]
differentiable = pytest.mark.parametrize("name", [name for name in KERNELS if name not in TOKENS])


def objects(name, seed=0):
    """Return 14 objects, short vectors for the sake of those with a limit."""
    rng = np.random.default_rng(seed)
    if KERNELS[name]().objects == "vectors":
        return 0.4 * rng.normal(size=(14, 3))
    if name in TOKENS:
        return ["".join(rng.choice(list("abc"), size=n % 8)) for n in range(14)]
    return [0.2 * rng.normal(size=(n % 8, 3)) for n in range(14)]


def as_tensors(X):
    return torch.from_numpy(X) if isinstance(X, np.ndarray) else [torch.from_numpy(x) for x in X]


@every_kernel
def test_the_gram_matrix_is_symmetric_and_has_no_negative_eigenvalue(name):
    gram = KERNELS[name]()(objects(name))
    assert gram.any()
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.abs(gram).max()


@every_kernel
def test_the_kernel_with_others_is_the_block_of_the_whole(name):
    kernel, X = KERNELS[name](), objects(name)
    whole = kernel(X)
    np.testing.assert_allclose(kernel(X[:5], X[3:]), whole[:5, 3:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel(X, X), whole, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), whole.diagonal(), rtol=1e-10, atol=1e-12)


@every_kernel
def test_copies_have_the_same_values(name):
    kernel, X = KERNELS[name](), objects(name)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert repr(copy) == repr(kernel)
        np.testing.assert_array_equal(copy(X), kernel(X))
    assert clone(kernel).set_params(**kernel.get_params(deep=False)) is not kernel


@every_kernel
def test_it_trains_a_classifier_in_a_pipeline(name):
    X = objects(name)
    y = np.arange(14) % 2
    for step in (GramTransformer(KERNELS[name]()), Nystroem(KERNELS[name](), 20)):
        kind = "precomputed" if isinstance(step, GramTransformer) else "linear"
        model = make_pipeline(step, SVC(kernel=kind, C=1e3)).fit(X, y)
        assert model.predict(X[:3]).shape == (3,)


@differentiable
def test_tensors_give_a_tensor_with_the_values_of_arrays(name):
    kernel, X = KERNELS[name](), objects(name)
    gram = kernel(as_tensors(X))
    assert isinstance(gram, torch.Tensor)
    assert isinstance(kernel.diag(as_tensors(X)), torch.Tensor)
    assert isinstance(kernel(X), np.ndarray)
    assert isinstance(kernel.diag(X), np.ndarray)
    np.testing.assert_allclose(gram, kernel(X), rtol=1e-10, atol=1e-12)


@differentiable
def test_the_gradient_is_the_numerical_one(name):
    kernel, X = KERNELS[name](), as_tensors(objects(name)[2:6])
    tensors = [X] if isinstance(X, torch.Tensor) else X
    inputs = [x.clone().requires_grad_() for x in tensors]

    def values(*X):
        X = X[0] if kernel.objects == "vectors" else X
        return kernel(X), kernel.diag(X), kernel(X[:1], X[1:])

    assert torch.autograd.gradcheck(values, inputs)
