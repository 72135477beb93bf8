"""Estimators whose `answer` is the kernel machine, the network, or both."""

from __future__ import annotations

import datetime
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import StratifiedKFold

from both_halves import assert_sums
from representer.errors import ArgumentError, DataError
from representer.estimators import (
    TextClassifier,
    TextRegressor,
    kernel_machine,
    linear_models,
    load,
)
from representer.estimators.fitting import outputs_of
from representer.estimators.halves import Pool
from representer.estimators.kernel_machine import KernelMachine, fit_machine, select
from representer.estimators.supervised import Classifier
from representer.estimators.targets import Classes, Numbers, Weighted, splits_of
from representer.kernels.text_kernel import TextKernel

WORDS = ("film", "play", "song", "book", "show", "game")
TEXTS = [f"the {a} {b} today" for a in ("good", "bad") for b in WORDS] * 5
LABELS = ["+" if "good" in text else "-" for text in TEXTS]
NUMBERS = np.array([2.0 if label == "+" else -1.0 for label in LABELS])
SMALL = {"hidden_size": 8, "embedding_size": 8, "random_state": 0, "verbose": 0, "epochs": 3}
ANSWERS = ("kernel", "network", "both")


@pytest.fixture(scope="session", params=ANSWERS)
def fitted(request) -> TextClassifier:
    return TextClassifier(**SMALL, answer=request.param).fit(TEXTS, LABELS)


def scores_of(model, texts):
    return np.concatenate([scores for scores, _ in model.checked_moments(texts)], axis=1)


def test_contributions_sum_to_the_score_and_name_their_part(fitted):
    for text, one in zip(TEXTS[:20], fitted.explain(TEXTS[:20]), strict=True):
        assert_sums(one, abs=1e-9)
        chances = np.log(fitted.predict_proba([text])[0])
        assert one.score == pytest.approx(chances.max() - chances.mean(), rel=1e-4, abs=1e-6)
    parts = {c.part for c in one.contributions}
    weights = {"kernel": fitted.pool_.kernel, "network": fitted.pool_.network}
    assert parts == {part for part, weight in weights.items() if weight > 0}


def test_steps_of_the_network_are_of_the_class_that_both_parts_predict():
    model = TextClassifier(**SMALL).fit(TEXTS, LABELS)
    if model.part("network").predict(TEXTS[:1]) == model.predict(TEXTS[:1]):
        for parameter in model.network_.head[-1].parameters():
            parameter.data.neg_()  # now the network alone predicts the other class
    both = replace(model.pool_, kernel=1.0, network=0.1, share=0.9)  # of which one adds nothing
    model.targets_ = (replace(model.targets_[0], pool=both),)
    (one,) = model.explain(TEXTS[:1], k=20)
    steps = model.explanation_details(TEXTS[0], one)["steps"]
    expected = sum(c.contribution for c in one.contributions if c.part == "network")
    assert model.part("network").predict(TEXTS[:1])[0] != one.prediction
    assert sum(step["contribution"] for step in steps) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "pair",
    [
        (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
        tuple(np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")), (("a", 1), ("b", 2)),
        (b"a", b"b"), ("a", 1), (True, False),
    ],
    ids=["dates", "times", "tuples", "bytes", "types", "truth values"],
)  # fmt: skip
def test_labels_of_any_kind_are_predicted_and_scored(pair):
    y = [pair[label == "+"] for label in LABELS]
    model = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, y)
    assert [*model.predict(TEXTS)] == y
    assert model.score(TEXTS, y) == 1.0
    assert model.score(TEXTS, y[::-1]) == np.mean([a == b for a, b in zip(y, y[::-1], strict=True)])


def test_a_label_that_training_lacked_is_scored_as_wrong_and_one_of_another_type_refused():
    model = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, LABELS)
    assert model.score(TEXTS[:2], [LABELS[0], "other"], sample_weight=[3, 1]) == 0.75
    assert model.score(TEXTS, np.array(LABELS)[:, None]) == model.score(TEXTS, LABELS)
    with pytest.raises(DataError, match=r"y\[1\] is 1; the classes are '\+', '-'"):
        model.score(TEXTS[:2], [LABELS[0], 1])
    with pytest.raises(DataError, match="X has 2 rows and y has 1"):
        model.score(TEXTS[:2], LABELS[:1])


def test_labels_of_several_targets_that_training_lacked_are_scored_as_wrong():
    table = [[label, k % 3] for k, label in enumerate(LABELS)]
    model = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, table)
    (first, second), (_, third) = model.predict(TEXTS[:2])
    known = [[first, second], [None, third]]
    assert model.score(TEXTS[:2], known) == 1
    assert model.score(TEXTS[:2], [["other", second], [None, 7]]) == pytest.approx(1 / 3)
    assert model.score(TEXTS[:2], [["other", second], [None, 7]], sample_weight=[2, 1]) == 0.4
    with pytest.raises(DataError, match=r"y\[0, 1\] is 'x'; the classes are 0, 1, 2"):
        model.score(TEXTS[:1], [[first, "x"]])
    with pytest.raises(DataError, match="X has 2 rows and y has 1"):
        model.score(TEXTS[:2], known[:1])
    with pytest.raises(DataError, match="y has no known value"):
        model.score(TEXTS[:2], [[None, None]] * 2)


def test_numbers_are_scored_and_validated_with_the_rows_and_targets_of_the_model():
    model, table = TextRegressor(**SMALL, answer="kernel"), np.stack([NUMBERS, -NUMBERS], 1)
    model.fit(TEXTS, NUMBERS)
    assert model.score(TEXTS, NUMBERS[:, None]) == model.score(TEXTS, NUMBERS)
    with pytest.raises(DataError, match="X has 4 rows and y has 2"):
        model.score(TEXTS[:4], NUMBERS[:2])
    with pytest.raises(DataError, match=r"y has shape \(60, 2\); expected \(N,\)"):
        model.fit(TEXTS, NUMBERS, validation=(TEXTS, table))
    model.fit(TEXTS, table)
    with pytest.raises(DataError, match=r"y has shape \(60,\); expected \(N, 2\)"):
        model.score(TEXTS, NUMBERS)
    expected, table[:, 1] = r2_score(NUMBERS, model.predict(TEXTS)[:, 0]), np.nan
    assert model.score(TEXTS, table) == pytest.approx(expected)
    with pytest.raises(DataError, match="y has no known value"):
        model.score(TEXTS, table * np.nan)


def test_texts_without_a_common_ngram_are_regressed_to_their_mean(tmp_path):
    texts, numbers = [4 * letter for letter in "abcdefghij"], np.arange(10.0)
    model = TextRegressor(**SMALL, min_count=1, answer="kernel").fit(texts, numbers)
    with pytest.warns(UserWarning, match="10 texts have nothing that training had"):
        np.testing.assert_allclose(model.predict(texts), 4.5)
    model.save(tmp_path / "run")
    with pytest.warns(UserWarning, match="1 of 1 texts have nothing that training had"):
        np.testing.assert_allclose(load(tmp_path / "run").predict(["a new one"]), 4.5)


def test_a_saved_estimator_predicts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert loaded.explain(TEXTS[:2]) == fitted.explain(TEXTS[:2])
    assert loaded.share_ == fitted.share_
    assert (loaded.kernel_ is None) == (fitted.answer == "network")
    assert (loaded.network_ is None) == (fitted.answer == "kernel")


def test_both_is_the_weighted_sum_of_the_two_scores():
    both = TextClassifier(**SMALL).fit(TEXTS, LABELS)
    network = TextClassifier(**SMALL, answer="network").fit(TEXTS, LABELS)
    kernel = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, LABELS)
    expected = both.pool_.kernel * scores_of(kernel, TEXTS) + both.pool_.network * (
        scores_of(network, TEXTS)
    )
    np.testing.assert_allclose(scores_of(both, TEXTS), expected, rtol=1e-12)
    assert both.answer == "both"
    assert sum(both.share_.values()) == 1


def test_the_weights_are_found_on_the_validation_part():
    texts, labels = ["a good film", "the bad sea", "bad", "good good play"], ["+", "-", "+", "-"]
    model = TextClassifier(**SMALL).fit(TEXTS, LABELS, validation=(texts, labels))
    outputs = outputs_of(model.network_, model.inputs_, model.inputs_.encode(texts))
    expected = model.target_.metrics(outputs, model.target_.encode(labels))["valid_loss"]
    assert model.pool_.network_loss == pytest.approx(expected, rel=1e-9)
    best = min(row["valid_loss"] for row in model.history_)
    assert model.pool_.network_loss == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("answer", ["kernel", "network"])
def test_a_part_of_both_predicts_as_the_estimator_that_has_only_this_part(answer):
    both = TextClassifier(**SMALL).fit(TEXTS, LABELS)
    alone = TextClassifier(**SMALL, answer=answer).fit(TEXTS, LABELS)
    part = both.part(answer)
    assert np.array_equal(part.predict_proba(TEXTS), alone.predict_proba(TEXTS))
    assert not np.array_equal(part.predict_proba(TEXTS), both.predict_proba(TEXTS))
    assert (part.answer, both.answer) == (answer, "both")
    assert part.share_ == alone.share_
    numbers = TextRegressor(**SMALL).fit(TEXTS, NUMBERS).part(answer)
    expected = TextRegressor(**SMALL, answer=answer).fit(TEXTS, NUMBERS)
    got, wanted = (one.predict(TEXTS[:9], return_std=True) for one in (numbers, expected))
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("answer", ["kernel", "network"])
def test_a_saved_part_of_a_regressor_predicts_the_same(answer, tmp_path):
    part = TextRegressor(**SMALL).fit(TEXTS, NUMBERS).part(answer)
    part.save(tmp_path / "run")
    got, wanted = (one.predict(TEXTS, return_std=True) for one in (load(tmp_path / "run"), part))
    assert np.array_equal(got, wanted)


def test_an_estimator_returns_itself_as_its_own_part_and_refuses_one_that_it_lacks(fitted):
    assert fitted.part(fitted.answer) is fitted
    if fitted.answer != "both":
        other = {"kernel": "network", "network": "kernel"}[fitted.answer]
        with pytest.raises(ArgumentError, match=f"answer is '{other}'; expected '{fitted.answer}'"):
            fitted.part(other)


def test_characters_of_the_kernel_are_in_the_words_that_they_name():
    kernel = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, LABELS)
    for text, one in zip(TEXTS[:9], kernel.explain(TEXTS[:9]), strict=True):
        words = text.split()
        named = [(c.what, " ".join(words[t] for t in c.where)) for c in one.contributions]
        assert all(what == own or what.strip("' ") in own for what, own in named)
        assert {what.startswith("'") for what, _ in named} == {True, False}


@pytest.mark.parametrize("answer", ANSWERS)
def test_numbers_are_predicted_with_a_deviation(answer):
    model = TextRegressor(**SMALL, answer=answer).fit(TEXTS, NUMBERS)
    mean, deviation = model.predict(TEXTS[:4], return_std=True)
    assert mean.shape == deviation.shape == (4,)
    assert (deviation > 0).all()
    for one, value in zip(model.explain(TEXTS[:4]), mean, strict=True):
        assert one.score == pytest.approx(value, rel=1e-5)
    if answer != "network":
        assert model.score(TEXTS, NUMBERS) > 0.95


def test_an_unknown_answer_is_refused():
    with pytest.raises(ArgumentError, match="answer is 'all'; expected one of both, kernel"):
        TextClassifier(answer="all").fit(TEXTS, LABELS)


def test_each_target_has_a_machine_of_its_known_rows():
    labels = np.array([[label, label] for label in LABELS], dtype=object)
    labels[::3, 1] = None
    model = TextClassifier(**SMALL, answer="kernel").fit(TEXTS, labels)
    assert model.score(TEXTS, labels) > 0.95
    known = [row for row in range(len(TEXTS)) if row % 3]
    alone = TextClassifier(**SMALL, answer="kernel").fit(
        [TEXTS[row] for row in known], [LABELS[row] for row in known]
    )
    assert len(model.targets_) == 2
    assert model.targets_[1].machine.kernel.width <= model.targets_[0].machine.kernel.width
    np.testing.assert_allclose(
        model.predict_proba(TEXTS)[1], alone.predict_proba(TEXTS), atol=0.2
    )  # C is found on other rows
    numbers = np.stack([NUMBERS, 100 * NUMBERS], axis=1)
    numbers[1::2, 0] = np.nan
    regressor = TextRegressor(**SMALL | {"epochs": 30}).fit(TEXTS, numbers)
    mean, deviation = regressor.predict(TEXTS, return_std=True)
    np.testing.assert_allclose(mean[:, 1], 100 * NUMBERS, atol=50)
    kernel = TextRegressor(**SMALL, answer="kernel").fit(TEXTS, numbers).predict(TEXTS)
    np.testing.assert_allclose(kernel[:, 1], 100 * NUMBERS, rtol=0.01)
    assert (deviation > 0).all()


def test_few_validation_objects_leave_the_choice_of_c_to_folds():
    rng = np.random.default_rng(0)
    words, target = [f"w{i}" for i in range(30)], Classes((0, 1))
    texts = [" ".join(rng.choice(words, 12)) for _ in range(160)]
    values = np.array([int("w1" in text.split()) for text in texts]) ^ (rng.random(160) < 0.2)
    given = [TextKernel(min_count=1)], target, texts, values, 150
    machine, moments = fit_machine(*given, None, is_supervised=True)
    chosen = machine.penalty
    losses = {}
    for penalty in (chosen / 3, chosen, chosen * 3):
        total = 0.0
        for rows, others in StratifiedKFold(5).split(texts[:150], values[:150]):
            kernel = TextKernel(min_count=1)
            features = kernel.fit([texts[i] for i in rows], np.eye(2)[values[rows]]).transform(
                [texts[i] for i in rows]
            )
            model = LogisticRegression(C=penalty, max_iter=1000, tol=1e-5)
            chances = model.fit(features, values[rows]).predict_proba(
                kernel.transform([texts[i] for i in others])
            )
            total -= np.log(chances[np.arange(len(others)), values[others]]).sum()
        losses[penalty] = total
    assert losses[chosen] < min(losses[chosen / 3], losses[chosen * 3])
    kernel = TextKernel(min_count=1)
    without = KernelMachine.fit(kernel, target, texts[:150], values[:150], chosen)
    assert np.array_equal(moments[0], without.scores(texts[150:]))
    groups = np.arange(150) // 30
    (rows, others), *_ = splits_of(target, values[:150], groups).folds()
    assert not {*groups[rows]} & {*groups[others]}


def test_the_machine_is_logistic_regression_on_the_features_of_the_kernel(monkeypatch):
    monkeypatch.setattr(linear_models, "PRECISION", 1e-5)  # what float32 allows
    target = Classes(("+", "-"))
    values = target.encode(LABELS)
    parts = (TEXTS[:40], values[:40]), (TEXTS[40:], values[40:])
    chosen = select([TextKernel(min_count=1)], target, *parts)
    machine = KernelMachine.fit(chosen.kernel, target, *parts[0], chosen.penalty)
    np.testing.assert_allclose(machine.scores(TEXTS[40:]), chosen.scores, rtol=1e-3)
    features = machine.kernel.transform(TEXTS[:40])
    peer = LogisticRegression(C=machine.penalty, max_iter=5000, tol=1e-9).fit(features, values[:40])
    scores = machine.scores(TEXTS[40:])
    expected = peer.predict_proba(machine.kernel.transform(TEXTS[40:]))
    np.testing.assert_allclose(target.probabilities(scores), expected, rtol=1e-2)


def test_a_class_that_the_training_part_lacks_is_never_predicted_by_the_machine():
    target = Classes(("+", "-", "?"))
    values = target.encode(LABELS)
    machine = KernelMachine.fit(TextKernel(min_count=1), target, TEXTS, values, 1.0)
    assert machine.scores(TEXTS).shape == (len(TEXTS), 3)
    assert set(machine.scores(TEXTS).argmax(1)) == {0, 1}


def test_weights_follow_the_better_part_and_drop_one_that_adds_nothing():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, 2000)
    signal = 3 * np.eye(2)[values] + rng.normal(size=(2000, 2))
    noise, target = rng.normal(size=(2000, 2)), Classes((0, 1))
    pool = Pool.fit(target, signal, noise, values)
    assert pool.network == 0
    assert pool.share == 1
    assert Pool.fit(target, noise, signal, values).kernel == 0
    half = Pool.fit(target, signal, 3 * np.eye(2)[values] + rng.normal(size=(2000, 2)), values)
    assert half.kernel == pytest.approx(half.network, rel=0.2)
    assert half.loss < pool.loss


def test_objects_of_a_group_count_once_in_the_prior():
    values, target, rng = np.array([0, 1, 1]), Classes((0, 1)), np.random.default_rng(0)
    kernel, network = np.eye(2)[values] + rng.normal(size=(2, 3, 2)) / 4
    repeated = [np.repeat(part, 40, axis=0) for part in (kernel, network, values)]
    single, grouped = Pool.fit(target, kernel, network, values), Pool.fit(target, *repeated, 3)
    assert [grouped.kernel, grouped.network] == pytest.approx([single.kernel, single.network])
    assert Pool.fit(target, *repeated).kernel != pytest.approx(grouped.kernel, rel=0.1)


def test_without_held_out_objects_an_overconfident_network_gets_half_of_the_spread():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, 5000)
    logits = 2 * np.eye(3)[values] + rng.gumbel(size=(5000, 3)) / 2
    target, network = Classes((0, 1, 2)), np.eye(3)[values] * 50
    pool = Pool.unvalidated(target, logits, network, values)
    alone = Pool.fit(target, logits, None, values)

    def spread(scores):
        return (scores - scores.mean(1, keepdims=True)).std()

    assert pool.share == pytest.approx(0.5)
    assert spread(pool.kernel * logits) == pytest.approx(spread(pool.network * network))
    losses = [
        target.metrics(scale * logits, values)["valid_loss"]
        for scale in 2 * pool.kernel * np.array([0.5, 1.0, 2.0])
    ]
    assert losses[1] == min(losses)  # the temperature of the kernel machine
    assert pool.kernel_loss == alone.loss
    weak = Pool.unvalidated(target, logits, network / 500, values)
    assert weak.network == 0.5
    assert weak.kernel * spread(logits) + spread(network / 1000) == pytest.approx(
        2 * pool.kernel * spread(logits)
    )
    assert weak.share > 0.9
    assert Pool.unvalidated(target, logits, 0 * network, values).network == 0
    assert Pool.unvalidated(target, 0 * logits, network, values).network == 1
    assert Pool.unvalidated(target, None, network, values).network == 1


def test_weights_of_numbers_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(2, 5000, 1))
    values = 0.7 * parts[0] + 0.2 * parts[1] + 0.1 * rng.normal(size=(5000, 1))
    target = Numbers((0.0,), (1.0,))
    pool = Pool.fit(target, *parts, values)
    # the prior is worth 4 of 5,000 examples
    np.testing.assert_allclose([pool.kernel, pool.network], [0.7, 0.2], atol=0.01)
    assert pool.loss == pytest.approx(0.01, rel=0.1)


def test_the_variance_of_both_parts_is_that_of_their_mixture():
    kernel, network = (np.array([[1.0]]), np.array([[0.5]])), (np.array([[3.0]]), np.array([[0.2]]))
    mean, variance = Pool(0.3, 0.7, 0.5, 0.0).moments(kernel, network)
    rng = np.random.default_rng(0)
    is_kernel = rng.random(400_000) < 0.3
    draws = np.where(is_kernel, 1 + rng.normal(size=400_000) * 0.5**0.5,
                     3 + rng.normal(size=400_000) * 0.2**0.5)  # fmt: skip
    # 4e5 draws of deviation 1.1: mean within 0.002, variance within 0.004, at one deviation
    assert mean[0, 0] == pytest.approx(draws.mean(), abs=0.01)
    assert variance[0, 0] == pytest.approx(draws.var(), abs=0.02)
    alone = Pool(0.0, 0.9, 0.0, 0.0).moments(None, network)
    assert (alone[0].item(), alone[1].item()) == pytest.approx((2.7, 0.2))


def test_a_run_without_its_kernel_machine_is_refused(tmp_path):
    TextRegressor(**SMALL).fit(TEXTS, NUMBERS).save(tmp_path / "run")
    for name in ("kernel.json", "manifest.json"):
        (tmp_path / "run" / name).unlink()
    with pytest.raises(DataError, match=r"a weight of a kernel machine without kernel\.json"):
        load(tmp_path / "run")


def test_an_estimator_without_one_of_its_parts_is_refused_before_training():
    class Lists(Classifier):
        def _check_objects(self, X):
            return X

    with pytest.raises(TypeError, match=r"abstract .*_configure.*learn_inputs"):
        Lists()


def test_the_loss_of_numbers_does_not_depend_on_where_they_begin():
    values = np.arange(6.0)[:, None]  # seconds; late ones are multiples of 128 in float32
    outputs, late = torch.zeros(6, 1), values + 1.7e9
    first = Numbers.find(values).loss(outputs, torch.from_numpy(values))
    assert first == pytest.approx(1.0)  # the variance
    assert Numbers.find(late).loss(outputs, torch.from_numpy(late)) == pytest.approx(first)


# The weights of kernel and network: the better half is never dropped for a worse one.


HALVES = {
    "perfect": lambda right, rng: right + 0.1 * rng.standard_normal(right.shape),
    "noisy": lambda right, rng: right + 2 * rng.standard_normal(right.shape),
    "constant": lambda right, rng: np.full(right.shape, 0.5),
    "reversed": lambda right, rng: -right,
    "minute": lambda right, rng: 1e-9 * right,
    "diverged": lambda right, rng: 1e8 * rng.standard_normal(right.shape),
    "one outlier": lambda right, rng: (
        np.where(np.arange(len(right))[:, None] == 3, -1e9, 1) * right
    ),
}


def planted(kind: str, count: int, seed: int = 0):
    """Return a target, its values, and the scores that are right."""
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        values = rng.normal(7, 3, (count, 1))
        return Numbers((7.0,), (3.0,)), values, (values - 7) / 3
    classes = 2 if kind == "two classes" else 5
    values = np.arange(count) % classes
    return Classes(tuple(range(classes))), values, 5 * np.eye(classes)[values]


@pytest.mark.parametrize(
    ("kind", "count"), [("two classes", 60), ("five classes", 7), ("numbers", 60)]
)
@pytest.mark.parametrize("find", [Pool.fit, Pool.cautious, Pool.unvalidated])
def test_the_stack_is_never_worse_than_its_better_half(kind, count, find):
    """Of halves that no object trained; without held-out objects, the kernel alone is such a one"""
    target, values, right = planted(kind, count)
    rng = np.random.default_rng(1)
    halves = {name: make(right, rng) for name, make in HALVES.items()}
    for first, second in permutations(halves, 2):
        kernel, network = halves[first], halves[second]
        pool = find(target, kernel, network, values)
        pool.check()
        alone = [pool.kernel_loss, pool.network_loss][: 1 if find == Pool.unvalidated else 2]
        assert pool.loss <= min(alone), (first, second)
        stacked = target.metrics(pool.scores(kernel, network), values)["valid_loss"]
        assert stacked == pytest.approx(pool.loss), (first, second)


@pytest.mark.parametrize("kind", ["two classes", "five classes", "numbers"])
@pytest.mark.parametrize("other", ["diverged", "constant", "reversed"])
def test_a_half_that_is_right_carries_the_prediction_beside_one_that_tells_nothing(kind, other):
    target, values, right = planted(kind, 40)
    good = HALVES["perfect"](right, np.random.default_rng(1))
    bad = HALVES[other](right, np.random.default_rng(2))
    assert Pool.fit(target, good, bad, values).share > 0.95
    assert Pool.fit(target, bad, good, values).share < 0.05


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6])
def test_two_halves_are_both_kept_whatever_the_scale_of_one(size):
    target, values, right = planted("five classes", 400)
    rng = np.random.default_rng(0)
    kernel, network = (right + 3 * rng.standard_normal(right.shape) for _ in range(2))
    expected = Pool.fit(target, kernel, network, values)
    pool = Pool.fit(target, kernel, size * network, values)
    assert pool.share == pytest.approx(expected.share, abs=0.15)
    assert pool.loss == pytest.approx(expected.loss, rel=0.1)
    assert 0.3 < expected.share < 0.7


def test_the_prior_of_equal_weights_yields_to_the_better_half():
    """With 4 examples' worth of it, the loss of both would be above that of the kernel."""
    target, values, right = planted("two classes", 10)
    kernel = right + 0.1 * np.random.default_rng(0).standard_normal(right.shape)
    weak = right / 20 + np.random.default_rng(1).standard_normal(right.shape)
    pool = Pool.fit(target, kernel, weak, values)
    assert pool.loss <= pool.kernel_loss < pool.network_loss


@pytest.mark.parametrize("find", [Pool.fit, Pool.unvalidated])
def test_a_weight_of_an_object_is_its_number_of_copies_in_the_stack(find):
    rng = np.random.default_rng(0)
    target, values = Classes(("a", "b")), rng.integers(0, 2, 60)
    counts = rng.integers(1, 9, 60)
    kernel, network = (rng.normal(size=(60, 2)) + np.eye(2)[values] for _ in range(2))
    rows, weights = np.repeat(np.arange(60), counts), counts[:, None] / counts.mean()
    ours = find(Weighted(target, weights), kernel, network, values)
    theirs = find(target, kernel[rows], network[rows], values[rows])
    assert ours.kernel_loss == pytest.approx(theirs.kernel_loss)
    assert ours.network_loss == pytest.approx(theirs.network_loss)
    assert ours.loss != pytest.approx(find(target, kernel, network, values).loss, abs=1e-3)


@pytest.mark.parametrize("kind", ["two classes", "five classes"])
def test_on_few_objects_the_kernel_machine_is_trusted_more_than_an_equally_good_network(kind):
    target, values, right = planted(kind, 75)
    rng = np.random.default_rng(3)
    kernel, network = (right + 5 * rng.standard_normal(right.shape) for _ in range(2))
    equal, cautious = (f(target, kernel, network, values) for f in (Pool.fit, Pool.cautious))
    assert cautious.share > equal.share + 0.02
    cautious.check()
    assert cautious.loss == pytest.approx(
        target.metrics(cautious.scores(kernel, network), values)["valid_loss"]
    )


@pytest.mark.parametrize("other", ["constant", "reversed", "noisy"])
def test_on_few_objects_a_network_carries_the_prediction_beside_a_kernel_that_learned_nothing(
    other,
):
    target, values, right = planted("two classes", 75)
    kernel = HALVES[other](right, np.random.default_rng(4))
    pool = Pool.cautious(target, kernel, right, values)
    chances = target.probabilities(pool.scores(kernel, right))
    assert (chances.argmax(1) == values).mean() > 0.95
    reverse = Pool.cautious(target, right, kernel, values)
    assert reverse.share > 0.9


@pytest.mark.parametrize("kind", ["two classes", "five classes", "numbers"])
def test_the_kernel_machine_counts_as_one_group_beside_those_held_out(kind):
    target, values, right = planted(kind, 60)
    kernel = HALVES["noisy"](right, np.random.default_rng(4))
    fit = Pool.fit(target, kernel, right, values, 1)
    shares = []
    for groups in (1, 3, 1000):
        pool = fit.trusted(target, kernel, right, values, groups)
        assert pool.network == pytest.approx(fit.network * groups / (groups + 1))
        assert pool.loss <= pool.kernel_loss
        shares.append(pool.share)
    assert shares[0] > shares[1] > shares[2] == pytest.approx(fit.share, abs=0.01)
    alone = Pool.fit(target, None, right, values)
    assert alone.trusted(target, None, right, values, 1) == alone


def test_a_held_out_group_on_which_the_network_is_better_does_not_drop_the_kernel(monkeypatch):
    network = Pool(0.0, 1.0, 0.0, 0.1, 0.5, 0.1)
    counts, trusted = [], Pool.trusted
    monkeypatch.setattr(Pool, "fit", lambda *scores: counts.append(scores[-1]) or network)
    monkeypatch.setattr(Pool, "trusted", lambda *args: counts.append(args[-1]) or trusted(*args))
    monkeypatch.setattr(TextClassifier, "few", 0)
    model = TextClassifier(**SMALL, valid_fraction=0.3)
    shares = [
        model.fit(TEXTS * 10, LABELS * 10, groups=groups).share_["kernel"]
        for groups in (None, np.arange(600) % 3, np.arange(600) % 10)
    ]
    assert shares[0] == 0 < shares[2] < shares[1]
    assert counts == [None, 1, 1, 3, 3]  # 0.3 of three and of ten groups are held out


class _Reader(BaseEstimator):
    """A kernel that takes a minute of a clock, and a second for each object."""

    clock: ClassVar[list[float]] = [0.0]

    def fit_transform(self, X, targets=None):
        self.clock[0] += 60 + len(X)
        return np.zeros((len(X), 1))


@pytest.mark.parametrize(("count", "told"), [(400, "31 min"), (40, ""), (80, "9 min")])
def test_the_time_of_a_kernel_machine_is_told_from_a_sample(count, told, monkeypatch, capsys):
    """Its choice takes four readings of all objects; of few objects, nothing is told.

    What a reading takes at any size counts once, and the time of other processes not at all.
    """
    monkeypatch.setattr(kernel_machine.time, "perf_counter", lambda: 2 * _Reader.clock[0])
    monkeypatch.setattr(kernel_machine.time, "process_time", lambda: _Reader.clock[0])
    objects, values = [*range(count)], np.arange(count) % 2
    kernel_machine.announce([_Reader()], Classes(("a", "b")), objects, values)
    expected = f"the kernel machine takes about {told}\n" if told else ""
    assert capsys.readouterr().err == expected
