"""Features of word vectors: two kernels, and the parts of a score that sum to it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from representer.data.text import WordVectors
from representer.kernels.string_kernel import StringKernel
from representer.kernels.text_kernel import TextKernel
from representer.kernels.vector_features import VectorFeatures

WORDS = ("good", "bad", "fine", "film", "play", "a", "the", "not")
TEXTS = ["good film", "a bad play", "the film a fine play", "not bad", "not good the play", "film"]


@pytest.fixture
def vectors() -> WordVectors:
    rng = np.random.default_rng(0)
    return WordVectors(WORDS, rng.normal(size=(len(WORDS), 5)).astype(np.float32))


@pytest.fixture
def fitted(vectors) -> VectorFeatures:
    features = VectorFeatures(vectors)
    features.fit_transform([text.split() for text in TEXTS])
    return features


def test_the_features_are_a_gaussian_kernel_and_a_string_kernel_of_vectors(vectors):
    """Every text is a landmark; all axes are kept, so that words are compared by their vectors."""
    words = [text.split() for text in TEXTS]
    features = VectorFeatures(vectors)
    found = features.fit_transform(words)
    own = [vectors.matrix[vectors.rows(one)].astype(float) for one in words]
    z = np.stack([np.concatenate([v.mean(0), v.max(0)]) for v in own])
    z = (z - z.mean(0)) / z.std(0)
    distances = ((z[:, None] - z) ** 2).sum(-1)
    centered = [v - vectors.matrix.mean(0, dtype=float) for v in own]
    # pairs of words up to three apart: no text has words further apart than four
    pairs = StringKernel(2, 0.5, trailing=False).cosine()(centered)
    longest = [len(one) < 5 for one in words]
    expected = np.exp(-0.15 / 10 * distances) + pairs
    np.testing.assert_allclose(
        (found @ found.T)[np.ix_(longest, longest)], expected[np.ix_(longest, longest)], atol=1e-5
    )


def test_the_shares_of_words_sum_to_the_score_to_1e_10(fitted):
    rng = np.random.default_rng(1)
    for text in [*TEXTS, "unheard of", "good unheard film", ""]:
        coefficients = rng.normal(size=fitted.width)
        (features,) = fitted.transform([text.split()])
        baseline, shares = fitted.shares(text.split(), coefficients)
        total = baseline + sum(value for _, value in shares)
        assert total == pytest.approx(float(features @ coefficients), abs=1e-10)
        assert all(text.split()[t] in WORDS for where, _ in shares for t in where)


def test_a_restored_kernel_has_the_same_features(fitted):
    words, arrays = fitted.fitted()
    nothing = WordVectors((), np.zeros((0, 1), np.float32))
    again = VectorFeatures(nothing).restore(words, arrays)
    rows = [text.split() for text in TEXTS]
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
    assert again.width == fitted.width
    with pytest.raises(ValueError, match="axes has shape"):
        VectorFeatures(nothing).restore(words, arrays | {"vectors.axes": np.zeros((5, 2))})


def test_a_text_kernel_adds_the_kernels_of_vectors_to_that_of_n_grams(vectors, fitted):
    plain, with_vectors = TextKernel(min_count=1), TextKernel(min_count=1, vectors=vectors)
    own = fitted.transform([text.split() for text in TEXTS])
    plain.fit(TEXTS)
    with_vectors.fit(TEXTS)
    np.testing.assert_allclose(with_vectors(TEXTS), plain(TEXTS) + own @ own.T, atol=1e-12)
    assert with_vectors.width == plain.width + fitted.width
    assert clone(with_vectors).vectors is vectors
    tokens, arrays = with_vectors.fitted()
    nothing = WordVectors((), np.zeros((0, 1), np.float32))
    again = TextKernel(min_count=1, vectors=nothing).restore(tokens, arrays)
    np.testing.assert_array_equal(again(TEXTS), with_vectors(TEXTS))
    tokens, arrays = plain.fitted()
    assert TextKernel(min_count=1, vectors=nothing).restore(tokens, arrays).width == plain.width
