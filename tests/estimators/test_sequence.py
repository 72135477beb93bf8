"""`SequenceClassifier` and `SequenceRegressor`: both halves of a kernel that a user writes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import SequenceClassifier, SequenceRegressor
from representer.estimators.kernel_halves import KernelFeatures
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    InversePolynomial,
    Polynomial,
    RandomWalkKernel,
    StringKernel,
)

KERNEL = StringKernel(1, trailing=False) + 0.5 * StringKernel(2, 0.8, trailing=False).cosine()
SMALL: dict[str, Any] = {"hidden_size": 8, "random_state": 0, "verbose": 0, "epochs": 15}


def words(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return words over abcd; those of class "ab" have an a two letters before a b."""
    rng, found, labels = np.random.default_rng(seed), [], []
    for k in range(count):
        letters = rng.choice(list("abcd" if k % 2 else "bcd"), size=rng.integers(4, 9))
        if k % 2:
            start = rng.integers(0, len(letters) - 2)
            letters[[start, start + 2]] = "a", "b"
        found.append("".join(letters))
        labels.append("ab" if k % 2 else "none")
    return found, labels


WORDS, LABELS = words(60)
VECTORS = [np.eye(4)[["abcd".index(c) for c in word]] for word in WORDS]
NUMBERS = np.array([word.count("a") - 0.5 * word.count("d") for word in WORDS])


@pytest.fixture(scope="module")
def classifier() -> SequenceClassifier:
    return SequenceClassifier(kernel=KERNEL, **SMALL).fit(WORDS, LABELS)


@pytest.fixture(scope="module")
def regressor() -> SequenceRegressor:
    return SequenceRegressor(kernel=KERNEL, **SMALL).fit(VECTORS, NUMBERS)


def test_both_halves_learn_what_the_kernel_sees(classifier, regressor):
    X, y = words(60, seed=1)
    for answer in ("kernel", "network", "both"):
        assert classifier.part(answer).score(X, y) > 0.75
    assert regressor.score(VECTORS, NUMBERS) > 0.9


def test_the_default_kernel_learns_it_too():
    model = SequenceClassifier(answer="kernel", **SMALL).fit(WORDS, LABELS)
    X, y = words(60, seed=1)
    assert model.score(X, y) > 0.75


def test_letters_are_one_hot_vectors(classifier):
    of_vectors = SequenceClassifier(kernel=KERNEL, **SMALL | {"answer": "kernel"})
    of_vectors.fit(VECTORS, LABELS)
    expected = of_vectors.predict_proba(VECTORS)
    as_kernel = classifier.part("kernel").predict_proba
    np.testing.assert_allclose(as_kernel(WORDS), expected, rtol=1e-8)
    np.testing.assert_array_equal(as_kernel([list(word) for word in WORDS]), as_kernel(WORDS))


@pytest.mark.parametrize("answer", ["kernel", "network", "both"])
def test_the_contributions_sum_to_the_score(classifier, regressor, answer):
    for model, X in ((classifier, WORDS[:2]), (regressor, VECTORS[:2])):
        for one in model.part(answer).explain(X):
            total = one.baseline + sum(part.contribution for part in one.contributions)
            assert total == pytest.approx(one.score, abs=1e-6)
    (one,) = regressor.part(answer).explain(VECTORS[:1])
    assert one.score == pytest.approx(regressor.part(answer).predict(VECTORS[:1])[0], abs=1e-5)


def test_contributions_name_the_letter_and_the_part_of_the_kernel(classifier):
    (one,) = classifier.explain(["abcb"])
    names = {part.what for part in one.contributions}
    assert "a in StringKernel(order=1, trailing=False)" in names
    assert {part.part for part in one.contributions} == {"kernel", "network"}


def test_a_kernel_that_is_no_sum_over_tokens_is_a_contribution_of_the_whole():
    kernel = StringKernel(2, base=Gaussian())
    model = SequenceClassifier(kernel=kernel, **SMALL | {"epochs": 2}).fit(WORDS, LABELS)
    (one,) = model.explain(["abcb"])
    assert {part.where for part in one.contributions} == {(0, 1, 2, 3)}
    total = one.baseline + sum(part.contribution for part in one.contributions)
    assert total == pytest.approx(one.score, abs=1e-6)


@pytest.mark.parametrize("which", ["classifier", "regressor"])
def test_it_is_saved_with_its_kernel(which, request, tmp_path):
    model, X = request.getfixturevalue(which), WORDS if which == "classifier" else VECTORS
    model.save(tmp_path / "run")
    again = type(model).load(tmp_path / "run")
    assert repr(again.kernel) == repr(KERNEL)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X)) if hasattr(
        model, "predict_proba"
    ) else np.testing.assert_allclose(again.predict(X), model.predict(X))
    pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize(
    "kernel",
    [
        StringKernel(1).cosine().activated(InversePolynomial()),
        DeepStringKernel((1, 2), 0.5, Polynomial()),
    ],
)
def test_kernels_that_bound_the_norm_of_references_are_saved_too(kernel, tmp_path):
    model = SequenceClassifier(kernel=kernel, **SMALL | {"epochs": 1})
    model.fit(WORDS[:20], LABELS[:20]).save(tmp_path / "run")
    again = SequenceClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(WORDS[:4]), model.predict_proba(WORDS[:4]))


def test_grid_search_over_the_parameters_of_the_kernel():
    model = SequenceClassifier(kernel=StringKernel(2), **SMALL | {"answer": "kernel"})
    search = GridSearchCV(model, {"kernel__decay": [0.1, 0.9]}, cv=2).fit(WORDS, LABELS)
    assert search.best_params_["kernel__decay"] in (0.1, 0.9)
    assert model.kernel.decay == 0.5
    assert clone(model).get_params()["kernel__order"] == 2


def test_empty_and_unknown_sequences_are_predicted(classifier):
    chances = classifier.predict_proba(["", "xyz", "ab"])
    assert np.isfinite(chances).all()


@pytest.mark.parametrize(
    ("options", "problem", "message"),
    [
        ({"kernel": 3}, KindError, "a kernel of sequences"),
        ({"kernel": RandomWalkKernel()}, ArgumentError, "a kernel of sequences"),
        ({"kernel": StringKernel(base="delta")}, ArgumentError, "one-hot"),
        ({"hidden_size": 0}, ArgumentError, "hidden_size"),
    ],
)
def test_a_wrong_parameter_is_named(options, problem, message):
    with pytest.raises(problem, match=message):
        SequenceClassifier(**options).fit(WORDS, LABELS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("abab", "not a list"),
        (["ab", 3], r"X\[1\] is a int"),
        (["ab", [1.5]], r"X\[1\] has a token"),
        (["ab", [[1.0, 2.0]]], "mixes kinds"),
        ([[[1.0]], [[1.0, 2.0]]], r"features"),
        ([[[1.0], [np.nan]], [[1.0]]], r"X\[0\] is no array"),
        ([""] * 20, "empty"),
    ],
)
def test_a_wrong_object_is_named(X, message):
    with pytest.raises(DataError, match=message):
        SequenceClassifier(**SMALL).fit(X, ["a", "b"] * (len(X) // 2))


def test_objects_of_another_kind_than_in_training_are_refused(classifier, regressor):
    with pytest.raises(DataError, match=r"X\[0\] has vectors"):
        classifier.predict([np.eye(3)])
    with pytest.raises(DataError, match=r"X\[0\] has vectors of 3; training had 4"):
        regressor.predict([np.eye(3)])
    with pytest.raises(DataError, match=r"X\[0\] has tokens"):
        regressor.predict(["ab"])


def test_the_features_of_the_kernel_half_are_nystroems():
    X = [torch.tensor(one) for one in VECTORS[:20]]
    features = KernelFeatures(KERNEL)
    np.testing.assert_allclose((phi := features.fit_transform(X)) @ phi.T, KERNEL(X), atol=1e-8)
    np.testing.assert_allclose(features.transform(X), phi, atol=1e-8)
    few = KernelFeatures(KERNEL, count=5)
    phi = few.fit_transform(X)
    assert phi.shape[1] <= 5
    own, K = few.landmarks_, np.asarray(KERNEL(X))
    rows = [next(i for i, x in enumerate(X) if torch.equal(x, z)) for z in own]
    exact = K[:, rows] @ np.linalg.pinv(K[np.ix_(rows, rows)]) @ K[rows]
    np.testing.assert_allclose(phi @ phi.T, exact, atol=1e-6)
