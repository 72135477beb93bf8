from __future__ import annotations

import joblib
import numpy as np
import pytest

from representer.errors import ArgumentError
from representer.kernels import Linear, Nystroem, RandomWalkKernel, StringKernel

rng = np.random.default_rng(0)
X = [rng.normal(size=(n % 7, 3)) for n in range(30)]


def test_with_all_objects_as_landmarks_the_features_are_exact():
    kernel = StringKernel()
    features = Nystroem(kernel, 30).fit_transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), atol=1e-9)


def test_features_are_exact_for_landmarks_and_if_they_span_the_space():
    kernel = StringKernel(1)  # whose features are 3 numbers
    fitted = Nystroem(kernel, 6, random_state=0).fit(X)
    assert len(fitted.components_) == 6
    features = fitted.transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), atol=1e-9)
    longer = StringKernel(3)
    fitted = Nystroem(longer, 6, random_state=0).fit(X)
    features, at = fitted.transform(X), fitted.component_indices_
    np.testing.assert_allclose(features[at] @ features.T, longer(X)[at], atol=1e-8)
    assert not np.allclose(features @ features.T, longer(X))


def test_the_seed_determines_the_landmarks():
    one, other = (Nystroem(Linear(), 3, random_state=7).fit(rng.normal(size=(9, 2))) for _ in "ab")
    np.testing.assert_array_equal(one.component_indices_, other.component_indices_)
    another = Nystroem(Linear(), 3, random_state=8).fit(rng.normal(size=(9, 2)))
    assert set(one.component_indices_) != set(another.component_indices_)


@pytest.mark.parametrize("n", [0, 2.0])
def test_invalid_numbers_of_landmarks_are_rejected(n):
    with pytest.raises(ArgumentError, match="n_components is"):
        Nystroem(StringKernel(), n).fit(X)


def test_small_eigenvalues_are_kept():
    """Only rounding errors are removed, not features of 1 % of the scale of others."""
    vectors = rng.normal(size=(12, 2)) * [1.0, 0.01]
    features = Nystroem(Linear(), 12).fit_transform(vectors)
    np.testing.assert_allclose(features @ features.T, vectors @ vectors.T, rtol=1e-6, atol=1e-9)


def test_no_objects_have_no_landmarks():
    for kernel in (StringKernel(base="delta"), RandomWalkKernel()):
        with pytest.raises(ArgumentError, match=r"X is \[\]; expected at least one"):
            Nystroem(kernel).fit([])


@pytest.mark.parametrize("block", [1, 7, 30, 100])
def test_features_computed_in_blocks_have_the_same_bits_for_any_number_of_workers(block):
    whole = Nystroem(StringKernel(), 10, random_state=0).fit_transform(X)
    one = Nystroem(StringKernel(), 10, random_state=0, block=block).fit_transform(X)
    with joblib.parallel_config("threading", n_jobs=3):
        several = Nystroem(StringKernel(), 10, random_state=0, block=block).fit_transform(X)
    np.testing.assert_array_equal(one, several)
    np.testing.assert_allclose(one, whole, atol=1e-12)


@pytest.mark.parametrize("block", [0, 2.0])
def test_invalid_block_sizes_are_rejected(block):
    with pytest.raises(ArgumentError, match=r"block is .*; expected a positive integer or None"):
        Nystroem(StringKernel(), 3, block=block).fit(X).transform(X)
