"""The baselines: the majority class, and TF-IDF with linear models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from representer.report.page import Column, areas_under_curves
from representer.tasks import text
from representer.tasks.results import (
    constant_prediction,
    majority_class,
    predictions_of_baseline,
)
from representer.tasks.text import CharacterWeights, tfidf


def test_the_majority_class_comes_from_the_training_labels():
    baseline = majority_class([2, 0, 2, 1], test_count=3)
    assert baseline.predictions.tolist() == [2, 2, 2]


def test_logistic_regression_learns_which_word_decides():
    train = [["good", "film"], ["bad", "film"], ["good", "book"], ["bad", "book"]] * 5
    baseline = tfidf(train, [1, 0, 1, 0] * 5, [["bad", "play"], ["good"]])
    assert baseline.predictions.tolist() == [0, 1]


def test_logistic_regression_sees_pairs_of_words():
    """Word counts are equal in both classes; only the order tells them apart."""
    train = [["a", "b", "c"], ["b", "a", "c"]] * 10
    baseline = tfidf(train, [0, 1] * 10, [["a", "b"], ["b", "a"]])
    assert baseline.predictions.tolist() == [0, 1]


def test_the_validation_documents_select_the_regularization():
    """One document contradicts the others: only a large C lets the model follow it."""
    documents = [["a", "c"], ["b", "c"]] * 30 + [["a", "c", "z"]]
    labels = [1, 0] * 30 + [0]

    def description(label: int | None) -> str:
        valid = None if label is None else ([["a", "c", "z"]], [label])
        return tfidf(documents, labels, [["a"]], valid).description

    assert "(C = 1, selected on the validation documents)" in description(1)
    assert "(C = 1, " not in description(0)
    assert "selected on the validation documents" in description(0)
    assert "(C = 10)." in description(None)


def test_ridge_regression_learns_what_each_word_adds():
    train = [["good", "film"], ["bad", "film"], ["good", "book"], ["bad", "book"]] * 5
    numbers, test = np.array([2.5, 0.5, 2.0, 0.0] * 5), [["good"], ["bad"]]
    model = tfidf(train, numbers, test, is_regression=True)
    assert model.name == "TF-IDF + ridge regression"
    assert model.predictions[0] - model.predictions[1] > 1
    constant = constant_prediction(numbers, 2, is_regression=True)
    assert constant.predictions.tolist() == [1.25, 1.25]


def test_a_linear_svm_reads_the_characters_of_words_that_training_did_not_have():
    """No test word occurs in training; their beginnings do."""
    train = [["unhappy"], ["unkind"], ["untrue"], ["rehappy"], ["rekind"], ["retrue"]] * 3
    baseline = tfidf(train, [0, 0, 0, 1, 1, 1] * 3, [["unwell"], ["rewell"]], characters=True)
    assert baseline.name == "TF-IDF of words and characters + linear SVM"
    assert baseline.predictions.tolist() == [0, 1]
    assert "(C = 1)" in baseline.description
    numbers = np.array([0.0, 0.0, 0.0, 3.0, 3.0, 3.0] * 3)
    ridge = tfidf(train, numbers, [["unwell"], ["rewell"]], is_regression=True, characters=True)
    assert ridge.name == "TF-IDF of words and characters + ridge regression"
    assert ridge.predictions[1] - ridge.predictions[0] > 1


def test_many_classes_have_fewer_terms(monkeypatch):
    """Memory of the coefficients, terms times classes, is bounded: the rare word is left out."""
    train, labels = [["a"]] * 6 + [["a", "z"]] * 3, [0] * 6 + [1] * 3
    assert tfidf(train, labels, [["a", "z"]]).predictions.tolist() == [1]
    monkeypatch.setattr("representer.tasks.text.MAX_COEFFICIENTS", 2)
    monkeypatch.setattr("representer.tasks.text.FEWEST_TERMS", 1)
    assert tfidf(train, labels, [["a", "z"]]).predictions.tolist() == [0]


@pytest.mark.parametrize("characters", [False, True])
def test_a_baseline_is_ranked_by_its_scores_and_not_by_its_answers(characters):
    """Another word makes a score smaller, though the answers stay the same."""
    train = [["good", "film"], ["bad", "film"], ["good", "book"], ["bad", "book"]] * 5
    test = [["bad"], ["bad", "film"], ["good", "film"], ["good"]]
    baseline = tfidf(train, [1, 0, 1, 0] * 5, test, characters=characters)
    assert baseline.predictions.tolist() == [0, 0, 1, 1]
    truth = np.array([0, 1, 0, 1])
    column = Column("", truth, ["no", "yes"])
    (ranked,) = predictions_of_baseline(baseline, [column])
    assert ranked.probabilities is not None
    assert areas_under_curves(truth, ranked.probabilities)["auc"] == 0.75  # of answers: 0.5
    three = Column("", truth, ["no", "yes", "maybe"])  # of which training has two
    (answers,) = predictions_of_baseline(baseline, [three])
    assert answers.probabilities is not None
    assert answers.probabilities.shape == (4, 3)


@pytest.mark.parametrize("characters", [False, True])
def test_very_many_classes_have_the_nearest_centroid(monkeypatch, characters):
    """A linear model of thousands of classes takes hours."""
    monkeypatch.setattr("representer.tasks.text.MANY", 3)
    train = [["red", "ball"], ["red", "car"], ["blue", "sky"], ["blue", "sea"], ["old", "oak"]]
    baseline = tfidf(train, [0, 0, 1, 1, 4], [["reds", "red"], ["old"]], characters=characters)
    assert baseline.name.endswith("nearest centroid")
    assert baseline.predictions.tolist() == [0, 4]


@pytest.mark.parametrize("most", [3, 1000])
def test_weights_of_characters_are_those_of_scikit_learn_to_the_last_bit(most):
    train = [["red", "reds", "red"], ["a", "bad", "car park"], [], ["Old", "red", "oak", "x"]] * 3
    test = [["reds", "unseen"], [], ["car", "a", "a"], ["park red"]]
    make: Any = TfidfVectorizer
    expected = make(
        analyzer="char_wb", ngram_range=(2, 5), max_features=most, preprocessor=" ".join,
        sublinear_tf=True, dtype=np.float32,
    )  # fmt: skip
    weights: Any = CharacterWeights(most)
    for ours, theirs in (
        (weights.fit_transform(train), expected.fit_transform(train)),
        (weights.transform(test), expected.transform(test)),
        (weights.transform([[]]), expected.transform([[]])),
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())


def test_both_baselines_of_texts_count_words_once(monkeypatch):
    texts = {
        "train": ["a good film", "a bad film", "good", "bad play"] * 5, "valid": ["good play"] * 4,
        "test": ["bad", "good film", "a play"],
    }  # fmt: skip
    values = {
        "train": np.array([1, 0, 1, 0] * 5),
        "valid": np.ones(4, int),
        "test": np.ones(3, int),
    }
    data: Any = SimpleNamespace(
        parts={name: SimpleNamespace(objects=some) for name, some in texts.items()},
        values=values, inputs=SimpleNamespace(words=str.split), is_regression=False,
    )  # fmt: skip
    tokens = {name: [text.split() for text in some] for name, some in texts.items()}
    parts = tokens["train"], values["train"], tokens["test"]
    expected = [
        tfidf(*parts, (tokens["valid"], values["valid"])), tfidf(*parts, characters=True),
    ]  # fmt: skip
    counted, pairs = list[int](), text._words_and_pairs
    monkeypatch.setattr(text, "_words_and_pairs", lambda x: counted.append(1) or pairs(x))
    for ours, theirs in zip(text.train_baselines(data, tuned=True), expected, strict=False):
        assert ours.description == theirs.description
        np.testing.assert_array_equal(ours.predictions, theirs.predictions)
        np.testing.assert_array_equal(ours.probabilities[0], theirs.probabilities[0])
    assert len(counted) == sum(map(len, texts.values()))
