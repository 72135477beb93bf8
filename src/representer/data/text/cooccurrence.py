"""Word vectors from the texts themselves: a factorization of how often words stand together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

WINDOW = 5  # words to the left and to the right
SMOOTHING = 0.75  # exponent of the context counts, which are too small for rare words
_TINY = 1e-6  # instead of the length of a row of zeros
_ITERATIONS: Any = 3  # annotated as text, after the default


def cooccurrence_vectors(
    documents: Sequence[Sequence[int]], size: int, dimensions: int, seed: int
) -> NDArray[np.float32]:
    """Return a vector of each word: the factors of positive pointwise mutual information.

    Words at a distance of k up to 5 count 1/k. With the smoothed shares of contexts, row i of
    ``U √S`` is the vector of word i, scaled to a mean square of 1, where ``U S Vᵀ`` is the
    truncated singular value decomposition of ``max(log p(i, j) / (p(i) p(j)), 0)``. Where there
    are fewer words than dimensions, the last columns are 0, and so is the row of a word without
    positive information.

    Args:
        documents: The ids of each document's words, from 0 to ``size - 1``.
        size: V, the number of words.
        dimensions: D, the length of a vector.
        seed: Random seed of the decomposition.

    Returns:
        The matrix ``(V, D)``; all 0 if no two words stand together.

    References:
        Levy, Goldberg and Dagan, Improving Distributional Similarity with Lessons Learned from
        Word Embeddings, TACL 2015.
    """
    information = _positive_information(_counts(documents, size))
    vectors = np.zeros((size, dimensions), np.float32)
    rank = min(dimensions, size - 1)
    if rank < 1 or not information.nnz:
        return vectors
    from sklearn.utils.extmath import randomized_svd  # a second, which only training waits for

    u, s, _ = randomized_svd(information, rank, n_iter=_ITERATIONS, random_state=seed)
    is_known = np.diff(information.indptr) > 0
    vectors[is_known, :rank] = (u * np.sqrt(s))[is_known]
    return vectors / np.sqrt(np.mean(vectors**2, axis=1, keepdims=True)).clip(_TINY)


def _counts(documents: Sequence[Sequence[int]], size: int) -> sp.csr_array:
    """Return the symmetric weighted counts of two words in one window ``(V, V)``."""
    lengths = [len(document) for document in documents]
    words = np.fromiter(
        (word for document in documents for word in document), np.int64, sum(lengths)
    )
    owner = np.repeat(np.arange(len(lengths)), lengths)
    counts = sp.csr_array((size, size))
    for distance in range(1, WINDOW + 1):
        is_same = owner[:-distance] == owner[distance:]
        ends = words[:-distance][is_same], words[distance:][is_same]
        counts = counts + sp.coo_array((np.full(len(ends[0]), 1 / distance), ends), (size, size))
    return sp.csr_array(counts + counts.T)


def _positive_information(counts: sp.csr_array) -> sp.csr_array:
    """Return the entries of positive pointwise mutual information of counts ``(V, V)``."""
    pairs = counts.tocoo()
    words = counts.sum(1)
    contexts = words**SMOOTHING
    shares = pairs.data * contexts.sum() / (words[pairs.row] * contexts[pairs.col])
    values = np.maximum(np.log(shares), 0).astype(np.float32)
    result = sp.csr_array((values, (pairs.row, pairs.col)), counts.shape)
    result.eliminate_zeros()
    return result
