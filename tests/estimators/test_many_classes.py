"""Very many classes: a linear model of their centroids, with exact sums and little memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from representer.estimators import TextClassifier, many_classes
from representer.estimators.many_classes import CentroidCoefficients, best_classes, has_many, solved
from representer.estimators.targets import Classes

WORDS = [f"{start}{middle}{end}" for start in "bdgk" for middle in "aeiou" for end in "lmnr"]
TEXTS = [
    f"the {word} and {word}{k} of {WORDS[n - 1]}" for n, word in enumerate(WORDS) for k in "xyz"
]
LABELS = [word for word in WORDS for _ in "xyz"]


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(many_classes, "MANY", 40)


def test_coefficients_are_those_of_ridge_regression_on_the_span_of_the_centroids():
    generator = np.random.default_rng(0)
    features = sparse.random_array((60, 90), density=0.3, rng=generator, format="csr")
    values = np.arange(60) % 20
    coefficients, intercepts = solved(features, values, 20)
    x, y = features.toarray(), 2 * np.eye(20)[values] - 1
    span = np.linalg.svd(np.eye(20)[values].T @ x, full_matrices=False)[2]
    z = x @ span.T
    centered = z - z.mean(0)
    inner = centered.T @ centered + many_classes.SHRINKAGE * np.eye(20)
    rows = np.linalg.solve(inner, centered.T @ (y - y.mean(0)))
    expected = centered @ rows + y.mean(0)
    np.testing.assert_allclose(coefficients.products(features) + intercepts, expected, atol=1e-5)
    dense = np.stack([coefficients[k] for k in range(20)])
    np.testing.assert_allclose(coefficients.products(features), x @ dense.T, atol=1e-6)
    np.testing.assert_allclose(coefficients.products(x), x @ dense.T, atol=1e-6)
    np.testing.assert_allclose(coefficients.mean(0), dense.mean(0), atol=1e-9)


def test_a_class_of_few_texts_is_told_by_words_that_occur_once(tmp_path):
    assert has_many(Classes(tuple(WORDS)))
    model = TextClassifier(answer="kernel", random_state=0, verbose=0).fit(TEXTS, LABELS)
    coefficients = model.machine_.coefficients
    assert isinstance(coefficients, CentroidCoefficients)
    assert coefficients.size < np.prod(coefficients.shape) / 2
    asked = [f"a {word}w" for word in WORDS]
    assert model.score(asked, WORDS) > 0.9
    model.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(asked), model.predict_proba(asked), atol=1e-12)
    for one in again.explain(asked[:5], k=3):
        total = one.baseline + sum(part.contribution for part in one.contributions)
        assert total == pytest.approx(one.score, abs=1e-9)


def test_the_five_best_classes_are_answered():
    probabilities = np.array([[0.1, 0.0, 0.3, 0.2, 0.25, 0.15]])
    (row,) = best_classes(probabilities, [*"abcdef"])
    assert row[::2] == ["c", "e", "d", "f", "a"]
    assert row[1::2] == ["0.300000", "0.250000", "0.200000", "0.150000", "0.100000"]
