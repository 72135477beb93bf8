"""Weights of sparse features, by how rare they are and how unevenly spread over classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from representer.kernels.ngram_kernel import dense


def inverse_document_frequency(features: sparse.csr_array) -> NDArray[np.float64]:
    """Return ``log((1 + N) / (1 + df)) + 1`` of each column ``(F,)``."""
    shape: Any = features.shape
    rows, columns = shape
    frequency = np.bincount(features.indices, minlength=columns)
    return np.log((1 + rows) / (1 + frequency)) + 1


def class_ratio(features: sparse.csr_array, classes: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return :math:`\max_c |\log (p_{gc} / q_{gc})|` of each column g ``(F,)``.

    p and q are the shares of a column among the occurrences in class c and in all others, with
    one occurrence added to each.

    Args:
        features: Features ``(N, F)``; only which are not 0 counts.
        classes: Indicators of the class of each row ``(N, C)``.

    References:
        Wang and Manning, Baselines and Bigrams, ACL 2012.
    """
    is_there = sparse.csr_array(
        (np.ones(len(features.data)), features.indices, features.indptr), shape=features.shape
    )
    inside = dense(sparse.csr_array(classes.T) @ is_there) + 1
    outside = inside.sum(0) - inside - (classes.shape[1] - 2)
    p, q = (part / part.sum(axis=1, keepdims=True) for part in (inside, outside))
    return np.abs(np.log(p / q)).max(axis=0)


def unit_rows(features: sparse.csr_array) -> sparse.csr_array:
    """Return features with rows of length 1, in place; rows of zeros stay."""
    norms = np.sqrt(np.asarray(features.power(2).sum(axis=1)).ravel())
    features.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(features.indptr))
    return features
