"""Several labels an object: targets, thresholds, and a classifier of texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fitted_examples import TEXT as SMALL
from sklearn.metrics import f1_score

from both_halves import assert_sums
from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier
from representer.estimators.label_sets import LabelSets, f1_scores

BASES = ("wave tide", "moon old", "wave moon", "plain words")
TEXTS = [f"{base} n{k}" for k in range(12) for base in BASES]
LISTS = [["sea"], ["sky"], ["sea", "sky"], []] * 12
TABLE = np.array([[1, 0], [0, 1], [1, 1], [0, 0]] * 12)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    model = TextClassifier(**SMALL, epochs=12, lr=0.05, multilabel=True)
    return model.fit(TEXTS, LISTS)


def test_lists_of_labels_and_indicators_are_the_same_target():
    lists, table = LabelSets.find(LISTS), LabelSets.find(TABLE)
    assert lists.labels == ("sea", "sky")
    assert table.labels == (0, 1)
    np.testing.assert_array_equal(lists.encode(LISTS), table.encode(TABLE))
    assert table.encode(TABLE.tolist()).tolist() == TABLE.tolist()
    sets = LabelSets.find([set(labels) for labels in LISTS])
    np.testing.assert_array_equal(sets.encode(LISTS), TABLE)


def test_the_loss_is_that_of_a_logistic_regression_of_each_label():
    target, outputs = LabelSets.find(TABLE), np.random.default_rng(0).normal(size=(48, 2))
    chances = 1 / (1 + np.exp(-outputs))
    losses = -np.log(np.where(TABLE > 0, chances, 1 - chances)).sum(1)
    values = torch.from_numpy(target.encode(TABLE))
    assert target.loss(torch.from_numpy(outputs), values).item() == pytest.approx(losses.mean())
    weights = np.arange(48.0)[:, None]
    weighted = target.loss(torch.from_numpy(outputs), values, torch.from_numpy(weights)).item()
    assert weighted == pytest.approx((losses * weights[:, 0]).mean())
    found = target.metrics(outputs, target.encode(TABLE), weights)
    assert found["valid_loss"] == pytest.approx(np.average(losses, weights=weights[:, 0]))
    np.testing.assert_allclose(target.probabilities(outputs), chances)


def test_a_threshold_has_the_largest_f1_on_many_examples():
    """Of chances that are all below one half, no label is there with the usual threshold."""
    rng = np.random.default_rng(0)
    truth = (rng.random((1000, 2)) < [0.1, 0.5]).astype(float)
    chances = np.clip(0.2 * truth + rng.uniform(0.01, 0.25, size=truth.shape), 0, 0.49)
    target = LabelSets(("a", "b"), is_table=False)
    logits = np.log(chances / (1 - chances))
    for k, threshold in enumerate(target.thresholds(logits, truth)):
        grid = [f1_score(truth[:, k], chances[:, k] > t) for t in np.linspace(0.01, 0.49, 33)]
        assert f1_score(truth[:, k], chances[:, k] > threshold) >= max(grid) - 0.01


def test_few_examples_do_not_move_a_threshold():
    target = LabelSets(("a", "b"), is_table=False)
    truth = np.array([[1.0, 0.0], [0.0, 1.0]])
    logits = np.array([[2.0, -2.0], [-2.0, 2.0]])
    assert target.thresholds(logits, truth) == (0.5, 0.5)


@pytest.mark.parametrize(("y", "message"), [
    ([["a"], "b", ["a", "b"]], r"y\[1\] is 'b' of type str. Pass a list of labels"),
    ([["a", ["b"]], ["b"]], r"y\[0\] has \['b'\], which is no label.*hierarchies are left out"),
    ([["a"], []], "y has 1 labels; multilabel=True needs at least two"),
    ([["a", "b"], ["a"], ["a", "c"]], "all of the 3 objects have the label 'a'"),
    (np.array([[0, 2], [1, 1]]), r"y\[0, 1\] is 2; expected 0 or 1"),
    (np.array([[0, 0], [1, 0]]), "none of the 2 objects have the label 1"),
])  # fmt: skip
def test_labels_that_cannot_be_learned_name_the_row(y, message):
    with pytest.raises(DataError, match=message):
        LabelSets.find(y)
    with pytest.raises(DataError, match=r"y\[1\] has 'air'; the labels are 'sea', 'sky'"):
        LabelSets.find(LISTS).encode([["sea"], ["air"]])


def test_texts_with_several_labels_are_learned(fitted, tmp_path):
    asked = ["tide wave", "old moon", "moon wave", "plain words"]
    assert [set(labels) for labels in fitted.predict(asked)] == [
        {"sea"}, {"sky"}, {"sea", "sky"}, set()
    ]  # fmt: skip
    assert fitted.classes_.tolist() == ["sea", "sky"]
    assert fitted.predict_proba(asked).shape == (4, 2)
    assert fitted.score(TEXTS, LISTS) == 1.0
    assert fitted.f1_scores(TEXTS, LISTS) == {"micro_f1": 1.0, "macro_f1": 1.0}
    assert ((fitted.thresholds_ > 0) & (fitted.thresholds_ < 1)).all()
    fitted.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(asked), fitted.predict_proba(asked))
    np.testing.assert_array_equal(again.thresholds_, fitted.thresholds_)
    assert again.predict(asked).tolist() == fitted.predict(asked).tolist()


def test_the_explained_score_is_the_logit_of_the_most_probable_label(fitted):
    for text, one in zip(TEXTS[:3], fitted.explain(TEXTS[:3]), strict=True):
        chance = fitted.predict_proba([text]).max()
        assert one.score == pytest.approx(np.log(chance / (1 - chance)), abs=1e-4)
        assert_sums(one, abs=1e-6)


def test_indicators_weights_and_a_kernel_alone():
    model = TextClassifier(answer="kernel", multilabel=True, random_state=0, verbose=0)
    model.fit(TEXTS, TABLE, sample_weight=np.ones(len(TEXTS)))
    np.testing.assert_array_equal(model.predict(TEXTS[:4]), TABLE[:4])
    assert model.predict(TEXTS[:4]).dtype == np.int64


def test_what_several_labels_do_not_have_is_refused():
    model = TextClassifier(multilabel=True, conformal=0.9, verbose=0)
    with pytest.raises(ArgumentError, match="None with multilabel=True"):
        model.fit(TEXTS, LISTS)
    with pytest.raises(ArgumentError, match="tunes a threshold for each label"):
        TextClassifier(answer="kernel", multilabel=True, class_weight="balanced", verbose=0).fit(
            TEXTS, LISTS
        )
    single = TextClassifier(answer="kernel", verbose=0).fit(TEXTS, ["a", "b", "a", "b"] * 12)
    with pytest.raises(ArgumentError, match="multilabel"):
        single.f1_scores(TEXTS, LISTS)


def test_f1_of_all_labels_together_differs_from_the_mean_of_each():
    truth, predicted = np.array([[1, 0], [1, 0], [1, 1]]), np.array([[1, 0], [1, 0], [1, 0]])
    assert f1_scores(truth, predicted) == {"micro_f1": pytest.approx(6 / 7), "macro_f1": 0.5}
