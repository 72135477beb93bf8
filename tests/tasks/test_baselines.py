"""The baselines: the majority class, and TF-IDF with logistic regression."""

from __future__ import annotations

import numpy as np

from representer.tasks.baselines import majority_class, tfidf_logistic_regression


def test_the_majority_class_comes_from_the_training_labels():
    baseline = majority_class([2, 0, 2, 1], test_count=3)
    assert baseline.predictions.tolist() == [2, 2, 2]


def test_logistic_regression_learns_which_word_decides():
    train = [["good", "film"], ["bad", "film"], ["good", "book"], ["bad", "book"]] * 5
    baseline = tfidf_logistic_regression(train, [1, 0, 1, 0] * 5, [["bad", "play"], ["good"]])
    assert baseline.predictions.tolist() == [0, 1]


def test_logistic_regression_sees_pairs_of_words():
    """Word counts are equal in both classes; only the order tells them apart."""
    train = [["a", "b", "c"], ["b", "a", "c"]] * 10
    baseline = tfidf_logistic_regression(train, [0, 1] * 10, [["a", "b"], ["b", "a"]])
    assert baseline.predictions.tolist() == [0, 1]


def test_a_document_of_unknown_words_gets_a_prediction():
    baseline = tfidf_logistic_regression([["a"], ["b"]], [0, 1], [["z"], []])
    assert set(baseline.predictions.tolist()) <= {0, 1}
    assert baseline.predictions.dtype == np.int64


def test_the_validation_documents_select_the_regularization():
    """One document contradicts the others: only a large C lets the model follow it."""
    documents = [["a", "c"], ["b", "c"]] * 30 + [["a", "c", "z"]]
    labels = [1, 0] * 30 + [0]

    def description(label: int | None) -> str:
        valid = None if label is None else ([["a", "c", "z"]], [label])
        return tfidf_logistic_regression(documents, labels, [["a"]], valid).description

    assert "(C = 1, selected on the validation documents)" in description(1)
    assert "(C = 1, " not in description(0)
    assert "selected on the validation documents" in description(0)
    assert "(C = 10)." in description(None)
