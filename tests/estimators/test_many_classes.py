"""Very many classes: a linear model of their centroids, with exact sums and little memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from both_halves import assert_sums
from representer.estimators import TextClassifier, linear_models
from representer.estimators.kernel_machine import fit_machine
from representer.estimators.linear_models import (
    CentroidCoefficients,
    best_classes,
    few_objects,
    has_many,
    is_ahead,
    solved,
)
from representer.estimators.targets import Classes, Numbers
from representer.kernels import TextKernel

WORDS = [f"{start}{middle}{end}" for start in "bdgk" for middle in "aeiou" for end in "lmnr"]
TEXTS = [
    f"the {word} and {word}{k} of {WORDS[n - 1]}" for n, word in enumerate(WORDS) for k in "xyz"
]
LABELS = [word for word in WORDS for _ in "xyz"]


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(linear_models, "MANY", 40)


def test_coefficients_are_those_of_ridge_regression_on_the_span_of_the_centroids():
    generator = np.random.default_rng(0)
    features = sparse.random_array((60, 90), density=0.3, rng=generator, format="csr")
    values = np.arange(60) % 20
    coefficients, intercepts = solved(features, values, 20)
    x, y = features.toarray(), 2 * np.eye(20)[values] - 1
    span = np.linalg.svd(np.eye(20)[values].T @ x, full_matrices=False)[2]
    z = x @ span.T
    centered = z - z.mean(0)
    inner = centered.T @ centered + linear_models.SHRINKAGE * np.eye(20)
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
        assert_sums(one, abs=1e-9)


def test_fewer_classes_have_centroids_where_these_tell_more_objects_held_out(monkeypatch):
    monkeypatch.setattr(linear_models, "MANY", 10**9)
    letters = np.random.default_rng(0).choice([*"bcdfghjklmnpqrstvwz"], (40, 6))
    names = ["".join(row) for row in letters]  # each in two texts: of the other folds, in one
    texts = [f"the {name} {word}" for name in names for word in ("and", "or")]
    rare = TextClassifier(answer="kernel", random_state=0, verbose=0)
    rare.fit(texts, np.repeat(names, 2))
    assert isinstance(rare.machine_.coefficients, CentroidCoefficients)
    assert rare.score([f"a {name}" for name in names], names) > 0.9
    # both forms are right about all of these
    frequent = [f"{word} {word}{word} {k}" for word in WORDS[:48:4] for k in range(8)]
    labels = np.repeat(WORDS[:48:4], 8)
    usual = TextClassifier(answer="kernel", random_state=0, verbose=0).fit(frequent, labels)
    assert not isinstance(usual.machine_.coefficients, CentroidCoefficients)
    assert usual.score(frequent, labels) == 1


@pytest.mark.parametrize(("gained", "lost", "expected"), [
    (0, 0, False), (6, 0, False), (7, 0, True), (10, 1, True), (10, 2, False), (3, 9, False),
])  # fmt: skip
def test_scores_are_ahead_by_more_than_chance(gained, lost, expected):
    truth = np.arange(20) % 3
    ours, theirs = (np.eye(3)[truth] for _ in "ab")
    theirs[:gained] = -theirs[:gained]
    ours[gained : gained + lost] = -ours[gained : gained + lost]
    assert is_ahead(ours, theirs, truth) is expected


def test_few_objects_are_those_of_several_classes():
    assert few_objects(Classes(tuple(WORDS[:10])), 500)
    assert not few_objects(Classes(tuple(WORDS[:10])), 501)
    assert not few_objects(Classes(tuple(WORDS[:9])), 9)
    assert not few_objects(Numbers((0.0,), (1.0,)), 20)


@pytest.mark.parametrize("copies", [1, 2])  # a class of one object is in no stratified fold
def test_scores_of_training_objects_are_by_centroids_without_them(copies):
    words = np.random.default_rng(0).permutation([f"w{k}" for k in range(40 * copies * 6)])
    texts = [" ".join(row) for row in words.reshape(-1, 6)]  # of which none has a word of another
    values = np.repeat(np.arange(40), copies)
    target = Classes(tuple(WORDS[:40]))
    machine, (scores, _) = fit_machine(
        [TextKernel(min_count=1, min_characters=1)], target, texts, values, len(values), None
    )
    assert (machine.scores(texts).argmax(1) == values).all()
    assert (scores.argmax(1) == values).mean() < 0.2


def test_weights_of_objects_count_as_copies():
    features = sparse.csr_array(np.eye(6)[[0, 1, 2, 3, 4, 5, 5]])
    values = np.array([0, 1, 2, 0, 1, 2, 2])
    twice = solved(features, values, 3)
    weighted = solved(features[:6], values[:6], 3, np.array([[1.0], [1], [1], [1], [1], [2]]))
    for left, right in zip(
        (twice[0].products(features), twice[1]), (weighted[0].products(features), weighted[1]),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(left, right, atol=1e-6)


def test_the_five_best_classes_are_answered():
    probabilities = np.array([[0.1, 0.0, 0.3, 0.2, 0.25, 0.15]])
    (row,) = best_classes(probabilities, [*"abcdef"])
    assert row[::2] == ["c", "e", "d", "f", "a"]
    assert row[1::2] == ["0.300000", "0.250000", "0.200000", "0.150000", "0.100000"]
