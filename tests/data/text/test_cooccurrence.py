"""Word vectors from co-occurrences: their inner products are those of the definition."""

from __future__ import annotations

import numpy as np

from representer.data.text import cooccurrence_vectors

WORDS = 6
DOCUMENTS = [[2, 3, 4, 2], [3, 2], [5], [4, 5, 2, 3, 3, 4, 5, 2, 4]]


def information() -> np.ndarray:
    """Return positive pointwise mutual information, counted pair by pair."""
    counts = np.zeros((WORDS, WORDS))
    for document in DOCUMENTS:
        for i, one in enumerate(document):
            for j, other in enumerate(document):
                if 0 < abs(i - j) <= 5:
                    counts[one, other] += 1 / abs(i - j)
    context = counts.sum(0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = counts / counts.sum(1)[:, None] / (context / context.sum())
    return np.where(counts > 0, np.log(np.where(counts > 0, shares, 1)).clip(0), 0)


def test_vectors_are_the_scaled_singular_vectors_of_the_definition():
    found = cooccurrence_vectors(DOCUMENTS, WORDS, 3, seed=0)
    u, s, _ = np.linalg.svd(information())
    expected = u[:, :3] * np.sqrt(s[:3])
    expected[2:] /= np.sqrt(np.mean(expected[2:] ** 2, axis=1, keepdims=True))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    assert not found[:2].any()  # padding and the unknown word stand nowhere
    assert found.dtype == np.float32


def test_more_dimensions_than_words_and_no_pairs_give_zeros():
    wide = cooccurrence_vectors(DOCUMENTS, WORDS, 9, seed=0)
    assert wide.shape == (WORDS, 9)
    assert not wide[:, WORDS - 1 :].any()
    assert wide[:, : WORDS - 2].any(0).all()
    assert not cooccurrence_vectors([[2], [3], []], WORDS, 4, seed=0).any()
