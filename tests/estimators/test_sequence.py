"""`SequenceClassifier` and `SequenceRegressor`: both halves of a kernel that a user writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fitted_examples import COUNTS as NUMBERS
from fitted_examples import KERNEL, VECTORS, WORDS, fitted, words
from fitted_examples import PATTERNS as LABELS

from both_halves import assert_sums
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import SequenceClassifier, SequenceRegressor
from representer.estimators.kernel_halves import KernelFeatures
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    InversePolynomial,
    KmerKernel,
    Polynomial,
    RandomWalkKernel,
    StringKernel,
)

SMALL: dict[str, Any] = {"hidden_size": 8, "random_state": 0, "verbose": 0, "epochs": 15}


@pytest.fixture
def classifier() -> SequenceClassifier:
    return fitted("SequenceClassifier")


@pytest.fixture
def regressor() -> SequenceRegressor:
    return fitted("SequenceRegressor")


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
            assert_sums(one, abs=1e-6)
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
    assert_sums(one, abs=1e-6)


@pytest.mark.parametrize("kernel", [
    StringKernel(1).cosine().activated(InversePolynomial()),
    DeepStringKernel((1, 2), 0.5, Polynomial()),
])  # fmt: skip
def test_kernels_that_bound_the_norm_of_references_are_saved_too(kernel, tmp_path):
    model = SequenceClassifier(kernel=kernel, **SMALL | {"epochs": 1})
    model.fit(WORDS[:20], LABELS[:20]).save(tmp_path / "run")
    again = SequenceClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(WORDS[:4]), model.predict_proba(WORDS[:4]))


def test_empty_and_unknown_sequences_are_predicted(classifier):
    with pytest.warns(UserWarning, match=r"2 of 3 sequences have nothing .*: X\[0\], X\[1\]\."):
        chances = classifier.predict_proba(["", "xyz", "ab"])
    assert np.isfinite(chances).all()


@pytest.mark.parametrize(("options", "problem", "message"), [
    ({"kernel": 3}, KindError, "a kernel of sequences"),
    ({"kernel": RandomWalkKernel()}, ArgumentError, "a kernel of sequences"),
    ({"kernel": StringKernel(base="delta")}, ArgumentError, "one-hot"),
    ({"hidden_size": 0}, ArgumentError, "hidden_size"),
])  # fmt: skip
def test_a_wrong_parameter_is_named(options, problem, message):
    with pytest.raises(problem, match=message):
        SequenceClassifier(**options).fit(WORDS, LABELS)


@pytest.mark.parametrize(("X", "message"), [
    ("abab", "not a list"), (["ab", 3], r"X\[1\] is a int"),
    (["ab", [1.5]], r"X\[1\] has a token"), (["ab", [[1.0, 2.0]]], "mixes kinds"),
    ([[[1.0]], [[1.0, 2.0]]], r"features"),
    ([[[1.0], [np.nan]], [[1.0]]], r"X\[0\] is no array"), ([""] * 20, "empty"),
])  # fmt: skip
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


# K-mers of letters and tokens, without a kernel of the user's.

QUIET: dict[str, Any] = {"answer": "kernel", "random_state": 0, "verbose": 0, "n_jobs": 1}


def dna(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return random DNA, half of it with a motif, some letters of it in lower case or unknown."""
    rng, found, labels = np.random.default_rng(seed), [], []
    for row in range(count):
        one = rng.choice([*"ACGT"], size=int(rng.integers(20, 40)))
        if row % 2:
            start = int(rng.integers(0, len(one) - 7))
            one[start : start + 7] = [*"TGACTCA"]
        one[int(rng.integers(len(one)))] = "N" if row % 5 == 0 else "a"
        found.append("".join(one))
        labels.append("bound" if row % 2 else "free")
    return found, labels


@pytest.fixture(scope="module")
def of_dna() -> SequenceClassifier:
    return SequenceClassifier(**QUIET).fit(*dna(120))


def test_kmers_of_dna_are_learned(of_dna):
    X, y = dna(60, seed=1)
    assert of_dna.inputs_.name == "dna"
    assert of_dna.kernel_.orders == (6,)
    assert of_dna.score(X, y) > 0.85
    lower = [one.lower().replace("t", "u") for one in X]
    np.testing.assert_array_equal(of_dna.predict_proba(lower), of_dna.predict_proba(X))


def test_contributions_of_kmers_sum_to_the_score_and_stand_at_the_motif(of_dna):
    X, y = dna(100, seed=2)
    for one, label, own in zip(X, y, of_dna.explain(X), strict=True):
        assert_sums(own, abs=1e-9)
        if label == own.prediction == "bound" and "TGACTCA" in one:
            by_place = own.values_by_place()
            start = one.index("TGACTCA")
            assert sum(by_place[start : start + 7]) > 0.5 * (own.score - own.baseline)
    details = of_dna.explanation_details(X[0], of_dna.explain(X[:1])[0])
    assert "".join(details["words"]) == X[0]


def test_of_very_many_sequences_some_are_held_out(monkeypatch):
    monkeypatch.setattr(KmerKernel, "most_rows", 50)
    X, y = dna(400)
    model = SequenceClassifier(**QUIET).fit(X, y)
    assert model.score(*dna(60, seed=1)) > 0.85
    numbers = [one.count("A") for one in X]
    regressor = SequenceRegressor(**QUIET | {"orders": [1]}).fit(X, numbers)
    assert regressor.score(X, numbers) > 0.4


def test_the_motif_is_the_first_logo_of_its_class(of_dna):
    rows = {row["title"]: row["logos"] for row in of_dna.motifs(3)}
    best = rows["yes" if "yes" in rows else of_dna.classes_[-1]][0]
    assert len(rows) == 2
    tallest = "".join(max(c, key=c.__getitem__) if c else "-" for c in best["columns"])
    assert tallest == best["name"]
    assert max(best["columns"][0].values()) == pytest.approx(best["value"])


def test_references_of_the_network_are_motifs(classifier):
    (first, *_), head = classifier.motifs(2), classifier.network_.head.weight.detach().numpy()
    above = head - head.mean(0)
    assert first["part"] == "network"
    assert [one["value"] for one in first["logos"]] == pytest.approx(
        sorted(above[0], reverse=True)[: len(first["logos"])]
    )
    unit = int(first["logos"][0]["name"].split()[1])
    reference = classifier.network_.network.reference[unit].detach().numpy()
    heights = [[*column.values()] for column in first["logos"][0]["columns"]]
    np.testing.assert_allclose(heights, reference[:, : len(heights[0])])


def test_an_estimator_of_kmers_is_saved(of_dna, tmp_path):
    X, _ = dna(10, seed=3)
    of_dna.save(tmp_path / "run")
    again = SequenceClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(X), of_dna.predict_proba(X))


def test_proteins_are_compared_by_a_matrix_in_both_halves(tmp_path):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice([*"ARNDCQEGHILKMFPSTWYVX"], 15)) for _ in range(40)]
    X = [one + ("WFY" if row % 2 else "DEN") for row, one in enumerate(X)]
    options = {"base": "blosum62", "span": 3, "hidden_size": 4, "epochs": 2, "answer": "both"}
    model = SequenceClassifier(**QUIET | options).fit(X, ["a", "b"] * 20)
    assert model.inputs_.name == "protein"
    alike, other = model.part("kernel").predict_proba(["AAAAFYW", "AAAAEDD"])[:, 1]
    assert alike > other  # of WFY; no k-mer is equal
    for one in model.explain(X[:3]):
        assert_sums(one, abs=1e-6)
    model.save(tmp_path / "run")
    again = SequenceClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))


def test_events_are_regressed_with_weights():
    rng = np.random.default_rng(0)
    X = [
        rng.choice(["home", "cart", "buy"], size=int(rng.integers(2, 9))).tolist()
        for _ in range(60)
    ]
    y = np.array([one.count("buy") / len(one) for one in X])
    model = SequenceRegressor(**QUIET).fit(X, y, sample_weight=np.ones(60))
    assert model.score(X, y) > 0.9
    (one,) = model.explain([["home", "else", "buy"]])
    assert sum(part.contribution for part in one.contributions) + one.baseline == pytest.approx(
        model.predict([["home", "else", "buy"]])[0]
    )


def test_copies_and_groups_are_cross_validated_together():
    X, y = dna(40)
    groups = np.arange(40) // 2 % 5
    model = SequenceClassifier(**QUIET, num_patterns=2).fit([*X, *X], [*y, *y])
    assert model.score(X, y) > 0.8
    assert SequenceClassifier(**QUIET, num_patterns=2).fit(X, y, groups=groups).score(X, y) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [({"base": "blosum62", "position": 2.0}, "base"), ({"orders": (0,)}, "orders"),
     ({"alphabet": "greek"}, "alphabet"), ({"position": 0}, "position")],
)  # fmt: skip
def test_a_wrong_parameter_of_kmers_is_named(options, message):
    with pytest.raises(ArgumentError, match=message):
        SequenceClassifier(**options).fit(*dna(10))


def test_a_letter_that_is_none_is_named(of_dna):
    with pytest.raises(DataError, match=r"X\[1\] has 'E' at position 7, which is no letter of dna"):
        of_dna.predict(["ACGTACGT", "ACGTACGE"])
