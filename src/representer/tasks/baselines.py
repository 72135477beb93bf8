"""Baselines that are trained on the same split."""

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
        predictions: Classes or numbers of the test objects ``(N,)``, of several targets ``(N, K)``.
        seconds: Time of training and prediction.
        probabilities: Of the classes of each target ``(N, C)``, if the baseline has them.
    """

    name: str
    description: str
    predictions: NDArray[Any]
    seconds: float
    probabilities: Sequence[NDArray[np.float64]] = ()


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


def constant_prediction(values: NDArray[Any], test_count: int, *, is_regression: bool) -> Baseline:
    """Predict the mean, or the most frequent class, of the training data ``(N,)``."""
    if not is_regression:
        return majority_class(values.tolist(), test_count)
    started = time.perf_counter()
    predictions = np.full(test_count, values.mean())
    seconds = time.perf_counter() - started
    return Baseline("mean", "Always the mean of the training data.", predictions, seconds)


def tfidf(
    train_tokens: Sequence[Sequence[str]],
    train_values: Sequence[float] | NDArray[Any],
    test_tokens: Sequence[Sequence[str]],
    valid: tuple[Sequence[Sequence[str]], Sequence[float] | NDArray[Any]] | None = None,
    *,
    is_regression: bool = False,
) -> Baseline:
    """Train logistic or ridge regression on TF-IDF weights of words and pairs of words.

    The baseline gets the same words as the network, so that any difference is due to the model.

    Args:
        train_tokens: Words of each training document.
        train_values: Their classes, at least two different ones, or their numbers.
        test_tokens: Words of each test document.
        valid: Words and values of the validation documents, which then select C among 1, 10 and
            100; without them, C is 10.
        is_regression: True if values are numbers; ridge regression with penalty 1/C.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
    except ImportError as error:
        raise MissingExtraError("the TF-IDF baseline", "scikit-learn", "train") from error
    started = time.perf_counter()
    make_vectorizer: Any = TfidfVectorizer  # its type hints lack callables and float32
    vectorizer = make_vectorizer(
        analyzer=_words_and_pairs, max_features=MAX_TERMS, sublinear_tf=True, dtype=np.float32
    )
    train, values = vectorizer.fit_transform(train_tokens), np.asarray(train_values)
    candidates = [DEFAULT_C] if valid is None else CANDIDATES

    def fitted(c: float) -> Any:
        if is_regression:
            return Ridge(alpha=1 / c).fit(train, values)
        # L-BFGS takes 7 to 25 times as long on two data sets, and stops before the minimum
        return LogisticRegression(C=c, max_iter=1000, solver="newton-cg").fit(train, values)

    models = [fitted(c) for c in candidates]
    selected, origin = 0, ""
    if valid is not None:
        documents, known = vectorizer.transform(valid[0]), np.asarray(valid[1])
        scores = [model.score(documents, known) for model in models]
        selected, origin = int(np.argmax(scores)), ", selected on the validation documents"
    name = "ridge regression" if is_regression else "logistic regression"
    predictions = models[selected].predict(vectorizer.transform(test_tokens))
    return Baseline(
        f"TF-IDF + {name}",
        f"Words and pairs of words, weighted by TF-IDF, through {name} "
        f"(C = {candidates[selected]:g}{origin}).",
        predictions.astype(np.float64 if is_regression else np.int64),
        time.perf_counter() - started,
    )


def _words_and_pairs(tokens: Sequence[str]) -> list[str]:
    return [*tokens, *map(" ".join, pairwise(tokens))]
