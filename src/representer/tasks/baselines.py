"""Two baselines for text classifiers, trained on the same split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import MissingExtraError

DEFAULT_C, CANDIDATES = 10.0, (1.0, 10.0, 100.0)
MAX_TERMS = 100_000  # the most frequent; rare pairs add little and take most of the memory


@dataclass(frozen=True)
class Baseline:
    """Predictions of a baseline.

    Attributes:
        name: Short name for tables.
        description: What it does, in one sentence.
        predictions: Classes or numbers of the test documents ``(N,)``.
        seconds: Time of training and prediction.
    """

    name: str
    description: str
    predictions: NDArray[Any]
    seconds: float


def majority_class(train_labels: Sequence[int], test_count: int) -> Baseline:
    """Predict the most frequent class of the training data."""
    started = time.perf_counter()
    commonest = int(np.bincount(np.asarray(train_labels)).argmax())
    return Baseline(
        "majority class",
        "Always the commonest class of the training data.",
        np.full(test_count, commonest, dtype=np.int64),
        time.perf_counter() - started,
    )


def tfidf_logistic_regression(
    train_tokens: Sequence[Sequence[str]],
    train_labels: Sequence[int],
    test_tokens: Sequence[Sequence[str]],
    valid: tuple[Sequence[Sequence[str]], Sequence[int]] | None = None,
) -> Baseline:
    """Train logistic regression on TF-IDF weights of words and pairs of words.

    The baseline sees the same words as the network, so that any difference is due to the model.

    Args:
        train_tokens: Words of each training document.
        train_labels: Their classes; at least two different ones.
        test_tokens: Words of each test document.
        valid: Words and classes of the validation documents, which then select C among 1, 10 and
            100; without them, C is 10.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("the TF-IDF baseline", "scikit-learn", "train") from error
    started = time.perf_counter()
    make_vectorizer: Any = TfidfVectorizer  # its type hints lack callables and float32
    vectorizer = make_vectorizer(
        analyzer=_words_and_pairs, max_features=MAX_TERMS, sublinear_tf=True, dtype=np.float32
    )
    train = vectorizer.fit_transform(train_tokens)
    models = [
        LogisticRegression(C=c, max_iter=1000).fit(train, np.asarray(train_labels))
        for c in ([DEFAULT_C] if valid is None else CANDIDATES)
    ]
    selected, origin = models[0], ""
    if valid is not None:
        documents, classes = vectorizer.transform(valid[0]), np.asarray(valid[1])
        selected = max(models, key=lambda model: model.score(documents, classes))
        origin = ", selected on the validation documents"
    predictions = selected.predict(vectorizer.transform(test_tokens)).astype(np.int64)
    return Baseline(
        "TF-IDF + logistic regression",
        "Words and pairs of words, weighted by TF-IDF, through logistic regression "
        f"(C = {selected.C:g}{origin}).",
        predictions,
        time.perf_counter() - started,
    )


def _words_and_pairs(tokens: Sequence[str]) -> list[str]:
    return [*tokens, *map(" ".join, pairwise(tokens))]
