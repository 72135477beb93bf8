"""Sets and intervals contain the truth as often as they say, and stay what they are when saved."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier, TextRegressor, load
from representer.estimators.conformal import (
    Conformal,
    class_scores,
    number_scores,
)
from representer.estimators.targets import Classes, ClassTable, Numbers, splits_of
from representer.report.page import Column, Predictions, figures_by_target

# Of 30 rows, 9 are for calibration. The next lower quantile would lower the coverage by 0.1, which
# is five standard errors over 20 splits.
SPLITS, TRAIN, TEST, LEVEL = range(20), 30, 300, 0.9
WORDS = np.array([f"w{i:02}" for i in range(30)])
KERNEL = {"answer": "kernel", "verbose": 0}
SMALL = {"hidden_size": 4, "embedding_size": 4, "epochs": 1, "verbose": 0, "random_state": 0}


def made(seed: int, count: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts whose words tell a number and a class, both with noise."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, len(WORDS), size=(count, 8))
    told = (numbers < 15).sum(1) - 4
    values = told + rng.normal(size=count) * (1 + abs(told))
    labels = np.where(told + 2 * rng.normal(size=count) > 0, "a", "b")
    return [" ".join(WORDS[row]) for row in numbers], labels, values


def assert_is_level(coverage: list[float]) -> None:
    """Require the mean over splits within two standard errors of the level."""
    error = np.std(coverage, ddof=1) / len(coverage) ** 0.5
    assert error < 0.03
    assert abs(np.mean(coverage) - LEVEL) < 2 * error


def test_sets_of_labels_contain_the_truth_as_often_as_they_say():
    coverage = []
    for seed in SPLITS:
        X, labels, _ = made(seed, TRAIN + TEST)
        model = TextClassifier(**KERNEL, conformal=LEVEL, random_state=seed)
        sets = model.fit(X[:TRAIN], labels[:TRAIN]).predict_set(X[TRAIN:])
        truth = labels[TRAIN:].tolist()
        coverage.append(np.mean([own in inside for own, inside in zip(truth, sets, strict=True)]))
    assert_is_level(coverage)


def test_intervals_contain_the_truth_as_often_as_they_say():
    coverage = []
    for seed in SPLITS:
        X, _, values = made(seed, TRAIN + TEST)
        model = TextRegressor(**KERNEL, conformal=LEVEL, random_state=seed)
        low, high = model.fit(X[:TRAIN], values[:TRAIN]).predict_interval(X[TRAIN:])
        coverage.append(np.mean((low <= values[TRAIN:]) & (values[TRAIN:] <= high)))
    assert_is_level(coverage)


def test_scores_of_new_rows_are_below_the_quantile_with_the_exact_probability():
    rng, level, count = np.random.default_rng(0), 0.8, 90
    scores = rng.exponential(size=(4000, count))
    found = [Conformal.fit(level, [own]).quantiles[0] for own in scores]
    coverage = 1 - np.exp(-np.array(found))
    error = coverage.std() / len(found) ** 0.5
    assert abs(coverage.mean() - 73 / 91) < 3 * error  # the 73rd of 90 numbers is the quantile


@settings(deadline=None, max_examples=25)
@given(level=st.sampled_from([0.5, 0.75, 0.9, 0.95]), count=st.integers(19, 60))
def test_the_quantile_is_the_smallest_that_covers_one_row_more_than_its_share(level, count):
    scores = np.random.default_rng(count).normal(size=count) ** 2
    found = Conformal.fit(level, [scores]).quantiles[0]
    share = (count + 1) * level
    assert (scores <= found).sum() >= share - 1e-9
    assert (scores < found).sum() < share - 1e-9


def test_scores_are_those_of_the_known_rows_of_each_target():
    tables = [np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.2, 0.8], [0.5, 0.5]])]
    first, second = class_scores(tables, np.array([[0.0, np.nan], [0.0, 1.0]]))
    np.testing.assert_allclose(first, [0.1, 0.6])
    np.testing.assert_allclose(second, [0.5])
    means, deviations = np.array([[1.0, 2.0], [3.0, 4.0]]), np.full((2, 2), 2.0)
    first, second = number_scores(means, deviations, np.array([[2.0, np.nan], [3.0, 0.0]]))
    np.testing.assert_allclose(first, [0.5, 0.0])
    np.testing.assert_allclose(second, [2.0])


def test_sets_have_the_classes_of_at_least_the_least_probability():
    (sets,) = Conformal(0.9, (0.7,), (9,)).sets([np.array([[0.5, 0.35, 0.15], [0.8, 0.1, 0.1]])])
    assert sets.tolist() == [[True, True, False], [True, False, False]]
    (empty,) = Conformal(0.9, (0.1,), (9,)).sets([np.array([[0.5, 0.5]])])
    assert not empty.any()


@pytest.mark.parametrize(("count", "expected"), [(50, 15), (200, 60), (400, 100), (5000, 500)])
def test_a_tenth_of_the_rows_is_held_out_or_up_to_a_hundred(count, expected):
    target, values = Numbers((0.0,), (1.0,)), np.arange(float(count))[:, None]
    rest, held = splits_of(target, values).calibration(0)
    assert len(held) == expected
    assert sorted([*rest, *held]) == [*range(count)]
    assert splits_of(target, values).calibration(1)[1] != held


def test_rows_without_targets_stay_and_groups_give_one_row_each():
    labels = np.array([0] * 100 + [1] * 3)
    table = np.full((100, 2), np.nan)
    table[:40, 0] = 1.0
    _, held = splits_of(ClassTable((Classes((0, 1)),) * 2), table).calibration(0)
    assert max(held) < 40
    groups = np.arange(103) // 10
    rest, held = splits_of(Classes(("a", "b")), labels, groups).calibration(0)
    assert len(held) == len(set(groups[held])) == 3
    assert sorted({*groups[rest], *groups[held]}) == [*range(11)]
    assert len(rest) == sum(group not in groups[held] for group in groups)


def test_too_few_groups_for_the_level_are_refused_before_training():
    with pytest.raises(DataError, match=r"conformal=0\.9 needs at least 9 calibration groups"):
        splits_of(Numbers((0.0,), (1.0,)), np.arange(1000.0), np.arange(1000) // 100).calibration(
            0, 0.9
        )
    X, _, values = made(0, 100)
    with pytest.raises(DataError, match="calibration groups; there are 3"):
        TextRegressor(conformal=0.9).fit(X, values, groups=np.arange(100) // 10)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_random_row_of_a_new_group_is_covered_as_often_as_the_level_says(spread):
    """Of 40 groups of 25 rows; the scores of a group have a scale in common."""
    rng, target, coverage = np.random.default_rng(0), Numbers((0.0,), (1.0,)), []
    groups = np.repeat(np.arange(40), 25)
    for seed in range(200):
        scores = abs(rng.normal(size=1000)) * np.exp(spread * rng.normal(size=40))[groups]
        _, held = splits_of(target, scores, groups).calibration(seed, LEVEL)
        quantile = Conformal.fit(LEVEL, [scores[held]]).quantiles[0]
        new = abs(rng.normal(size=500)) * np.exp(spread * rng.normal(size=500))
        coverage.append((new <= quantile).mean())
    error = np.std(coverage) / 200**0.5
    assert abs(np.mean(coverage) - 12 / 13) < 3 * error  # the last of 12 scores is the quantile


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rare_classes_are_calibrated_as_often_as_they_occur(rows):
    """A third of the rows is of classes of at most three; a model that knows none covers them."""
    coverage = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = rng.permutation(np.r_[np.arange(600) % 2, 2 + np.arange(300) // rows])
        scores = np.where(truth < 2, rng.random(900), 1 + rng.random(900))
        target = Classes(tuple(range(truth.max() + 1)))
        new = rng.permutation(900)[:300]
        old = np.setdiff1d(np.arange(900), new)
        _, held = splits_of(target, truth[old]).calibration(seed, LEVEL)
        quantile = Conformal.fit(LEVEL, [scores[old][held]]).quantiles[0]
        coverage.append((scores[new] <= quantile).mean())
    error = np.std(coverage) / 60**0.5
    assert abs(np.mean(coverage) - LEVEL) < 0.01 + 3 * error


def test_calibration_must_leave_two_classes_to_train_on():
    labels = np.array([0] * 20 + [1])
    with pytest.raises(DataError, match="leaves to train on are of one class"):
        splits_of(Classes(("a", "b")), labels).calibration(0)


def test_copies_of_a_calibration_row_are_not_trained_on():
    X, labels, _ = made(0, 60)
    copied = [*X, *X]
    model = TextClassifier(**SMALL, conformal=0.8, answer="kernel")
    model.fit(copied, [*labels, *labels])
    assert model.conformal_.counts == (18,)
    assert sum(model.examples_.values()) == 120 - 18  # 84 to train and validate on, 18 calibrate


def test_calibration_rows_of_groups_equal_no_row_to_train_on(capsys):
    """Each of 60 groups has ten rows, of which eight are in another group, too."""
    groups, target = np.repeat(np.arange(60), 10), Numbers((0.0,), (1.0,))
    digests = np.where(np.arange(600) % 10 < 8, np.arange(600) // 20 * 20, np.arange(600))
    rest, held = splits_of(target, np.zeros(600), groups, digests).calibration(0, 0.9)
    assert len(held) == len(set(groups[held])) == 18
    assert not set(digests[rest]) & set(digests[held])
    as_ever = splits_of(target, np.zeros(600), groups).calibration(0, 0.9)
    assert splits_of(target, np.zeros(600), groups, np.arange(600)).calibration(0, 0.9) == as_ever
    assert not capsys.readouterr().err
    assert splits_of(target, np.zeros(600), groups, 0 * digests).calibration(0, 0.9) == as_ever
    assert "calibration rows equal others" in capsys.readouterr().err


def test_coverage_is_told_by_class_and_by_group():
    X, labels, values = made(0, 90)
    model = TextClassifier(**SMALL, conformal=0.8).fit(X[:60], labels[:60])
    groups = ["first"] * 10 + ["second"] * 20
    told = model.coverage(X[60:], labels[60:], groups=groups)
    inside = np.array([
        label in own for label, own in zip(labels[60:], model.predict_set(X[60:]), strict=True)
    ])  # fmt: skip
    assert told["coverage"] == inside.mean()
    assert told["by_group"] == {"first": inside[:10].mean(), "second": inside[10:].mean()}
    assert told["by_class"] == {name: inside[labels[60:] == name].mean() for name in "ab"}
    regressor = TextRegressor(**SMALL, conformal=0.8).fit(
        X[:60], np.stack([values, -values], 1)[:60]
    )
    first, second = regressor.coverage(X[60:], np.stack([values, -values], 1)[60:])
    assert set(first) == set(second) == {"coverage"}
    with pytest.raises(ArgumentError, match="conformal is None"):
        TextClassifier(**KERNEL).fit(X, labels).coverage(X, labels)


@pytest.mark.parametrize("kind", [TextClassifier, TextRegressor])
def test_calibration_rows_neither_train_nor_choose_weights(kind):
    """Other targets in the calibration rows change the quantile and nothing else."""
    X, labels, values = made(0, 80)
    y = labels if kind is TextClassifier else values
    _, held = splits_of(*_encoded(kind, y)).calibration(0)
    other = y.copy()
    if kind is TextClassifier:
        first, second = np.unique(y)[:2]
        other[held] = np.where(y[held] == first, second, first)
    else:
        other[held] += 100
    one, two = (kind(**SMALL, conformal=0.8).fit(X, own) for own in (y, other))
    assert np.array_equal(one.predict(X), two.predict(X))
    assert one.pool_ == two.pool_
    assert one.target_ == two.target_
    assert one.conformal_ != two.conformal_
    assert one.conformal_.counts == (len(held),) == (24,)


def _encoded(kind, y):
    target = Classes.find(y.tolist()) if kind is TextClassifier else Numbers.find(y)
    return target, target.encode(y)


def test_what_was_saved_predicts_the_same_sets_and_a_part_of_it_has_none(tmp_path):
    X, labels, values = made(0, 60)
    model = TextClassifier(**SMALL, conformal=0.8).fit(X, labels)
    model.save(tmp_path / "classes")
    loaded = load(tmp_path / "classes")
    assert loaded.conformal_ == model.conformal_
    assert loaded.predict_set(X) == model.predict_set(X)
    assert {type(label) for own in model.predict_set(X) for label in own} == {str}
    regressor = TextRegressor(**SMALL, conformal=0.8).fit(X, values)
    regressor.save(tmp_path / "numbers")
    assert np.array_equal(load(tmp_path / "numbers").predict_interval(X),
                          regressor.predict_interval(X))  # fmt: skip
    with pytest.raises(ArgumentError, match=r"conformal is 0\.8; expected a level"):
        model.part("kernel").predict_set(X)
    path = tmp_path / "classes" / "conformal.json"
    (tmp_path / "classes" / "manifest.json").unlink()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"level": 2.0}))
    with pytest.raises(DataError, match="conformal"):
        load(tmp_path / "classes")


def test_several_targets_have_a_set_each():
    X, labels, _ = made(0, 80)
    table = np.stack([labels, np.where(labels == "a", "x", "y")], axis=1).astype(object)
    model = TextClassifier(**SMALL, answer="network", conformal=0.8).fit(X, table)
    first, second = model.predict_set(X)
    assert set().union(*first) <= {"a", "b"}
    assert set().union(*second) <= {"x", "y"}
    assert len(model.conformal_.quantiles) == 2


def test_invalid_levels_are_rejected():
    X, labels, values = made(0, 40)
    with pytest.raises(ArgumentError, match="conformal is 1; expected a number between 0 and 1"):
        TextClassifier(conformal=1).fit(X, labels)
    with pytest.raises(
        DataError, match=r"conformal=0\.99 needs at least 99 calibration rows; there"
    ):
        TextRegressor(**KERNEL, conformal=0.99).fit(X, values)
    with pytest.raises(ArgumentError, match=r"conformal is None; expected a level such as 0\.9"):
        TextRegressor(**KERNEL).fit(X, values).predict_interval(X)


def test_sets_and_intervals_are_evaluated_by_groups():
    truth, groups = np.array([0, 1, 1, 0]), np.array(["g", "g", "h", "h"])
    sets = np.eye(2, dtype=bool)[[0, 1, 0, 0]]
    classes = Predictions(truth, np.full((4, 2), 0.5), sets=sets)
    numbers = Predictions(truth + 0.5, half_widths=np.array([1, 1, 0.1, 1]))
    for column, own in ((Column("", truth, "ab"), classes), (Column("", truth * 1.0, ()), numbers)):
        figures = figures_by_target([column], [own], groups=groups)["conformal"]
        assert (figures["coverage"], figures["by_group"]) == (0.75, {"g": 1.0, "h": 0.5})


def test_a_quantile_by_class_covers_each_class_as_often_as_the_level_says():
    """The second class, a fifth of the rows, has larger scores: together it is covered less."""
    rng, together, each = np.random.default_rng(0), [], []
    for _ in range(300):
        truth = (np.arange(200) % 5 == 0).astype(int)
        scores = rng.random(200) ** np.where(truth, 0.3, 3.0)
        names = np.array(["common", "rare"])[truth]
        new = rng.random(2000) ** 0.3
        found = Conformal.fit(LEVEL, [scores], "class", [names])
        each.append((new <= found.strata[0]["rare"]).mean())
        together.append((new <= found.quantiles[0]).mean())
    error = np.std(each) / 300**0.5
    assert abs(np.mean(each) - 37 / 41) < 3 * error  # the 37th of 40 scores is the quantile
    assert np.mean(together) < 0.7


def test_a_class_too_rare_for_the_level_is_in_every_set():
    names = np.array(["a"] * 20 + ["b"] * 8)
    found = Conformal.fit(LEVEL, [np.linspace(0, 0.5, 28)], "class", [names])
    assert found.strata[0]["b"] == 1.0
    (sets,) = found.sets([np.array([[0.4, 0.0, 0.6], [0.9, 0.1, 0.0]])], [("a", "b", "c")])
    assert sets.tolist() == [[False, True, True], [True, True, True]]  # no row was of class c


def test_each_group_has_its_quantile_and_one_without_calibration_rows_is_refused():
    X, _, values = made(0, 120)
    groups = np.array(["quiet", "loud"])[np.arange(120) % 2]
    values = np.where(groups == "loud", 10 * values, values)
    model = TextRegressor(**KERNEL, conformal=0.8, conformal_by="group", random_state=0)
    model.fit(X[:90], values[:90], groups=groups[:90])
    quantiles = model.conformal_.strata[0]
    assert set(quantiles) == {"quiet", "loud"}
    assert quantiles["loud"] > 2 * quantiles["quiet"]
    low, high = model.predict_interval(X[90:], groups=groups[90:])
    inside = (low <= values[90:]) & (values[90:] <= high)
    assert model.coverage(X[90:], values[90:], groups=groups[90:])["coverage"] == inside.mean()
    with pytest.raises(DataError, match="Pass groups="):
        model.predict_interval(X[90:])
    with pytest.raises(DataError, match="group 'new' has no calibration rows"):
        model.predict_interval(X[90:92], groups=["new", "loud"])
    with pytest.raises(ArgumentError, match="groups= to be passed to fit"):
        TextRegressor(**KERNEL, conformal=0.8, conformal_by="group").fit(X, values)
    with pytest.raises(ArgumentError, match="'group' or None for numbers"):
        TextRegressor(**KERNEL, conformal=0.8, conformal_by="class").fit(X, values)


def test_cross_conformal_scores_are_those_of_models_that_have_not_seen_the_row():
    """By hand: five models, each with four fifths of the rows, and the model of all rows."""
    X, _, values = made(0, 60)
    model = TextRegressor(**KERNEL, conformal=LEVEL, calibration="cross", random_state=0)
    model.fit(X, values)
    scores = []
    for rows, held_out in splits_of(Numbers((0.0,), (1.0,)), values[:, None], None).folds():
        fold = TextRegressor(**KERNEL, random_state=0)
        fold.fit([X[row] for row in rows], values[rows])
        mean, deviation = fold.predict([X[row] for row in held_out], return_std=True)
        scores.extend(abs(values[held_out] - mean) / deviation)
    assert model.conformal_.counts == (60,)
    assert model.conformal_.quantiles[0] == pytest.approx(np.sort(scores)[55 - 1])  # of 61 × 0.9
    plain = TextRegressor(**KERNEL, random_state=0).fit(X, values)
    assert np.array_equal(plain.predict(X), model.predict(X))  # no row was set aside


@pytest.mark.parametrize("sizes", [[100] * 10, [400] * 3 + [10] * 20])
def test_rows_of_a_group_count_as_one_where_each_row_calibrates(sizes):
    """The scores of a group have a scale in common; large groups have large ones."""
    rng, groups, coverage = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes), []
    for _ in range(200):
        scales = np.exp(rng.normal(size=len(sizes))) / np.array(sizes)
        scores = abs(rng.normal(size=len(groups))) * scales[groups]
        quantile = Conformal.fit(LEVEL, [scores], units=[groups]).quantiles[0]
        drawn = rng.choice(sizes, 500)
        new = abs(rng.normal(size=500)) * np.exp(rng.normal(size=500)) / drawn
        coverage.append((new <= quantile).mean())
    assert np.mean(coverage) > LEVEL - 2 * np.std(coverage) / 200**0.5
    scores = rng.random(30)
    alone = Conformal.fit(LEVEL, [scores], units=[np.arange(30)])
    assert alone == Conformal.fit(LEVEL, [scores])


def test_cross_conformal_prediction_counts_groups_and_copies(capsys):
    X, _, values = made(0, 60)
    cross = {**KERNEL, "conformal": LEVEL, "calibration": "cross"}
    with pytest.raises(DataError, match="needs at least 9 calibration groups; there are 6"):
        TextRegressor(**cross).fit(X, values, groups=np.arange(60) // 10)
    model = TextRegressor(**cross).fit(X, values, groups=np.arange(60) // 5)
    assert model.conformal_.quantiles[0] < np.inf
    # of every copied object, the weight is that of one
    copied = TextRegressor(**cross, random_state=0).fit(
        [*X, *X[:20] * 3], [*values, *np.tile(values[:20], 3)]
    )
    assert copied.conformal_.counts == (120,)
    few = TextRegressor(**{**cross, "verbose": 1})
    few.fit(X[:6] * 10, np.tile(values[:6], 10))
    assert "so few objects differ" in capsys.readouterr().err


def test_cross_conformal_sets_contain_each_class_at_least_as_often_as_they_say(tmp_path):
    """At least: the model that predicts has seen more rows than those that calibrate."""
    coverage = []
    for seed in range(3):
        X, labels, _ = made(seed, 90 + TEST)
        model = TextClassifier(
            **KERNEL, conformal=0.8, calibration="cross", conformal_by="class", random_state=seed
        ).fit(X[:90], labels[:90])
        assert model.conformal_.counts == (90,)
        coverage.append(list(model.coverage(X[90:], labels[90:])["by_class"].values()))
    error = np.std(coverage, axis=0) / 2**0.5
    assert (np.mean(coverage, axis=0) > 0.8 - 2 * error - 0.02).all()
    model.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert loaded.conformal_ == model.conformal_
    assert loaded.predict_set(X[90:99]) == model.predict_set(X[90:99])


def test_several_targets_are_cross_calibrated_each_by_itself():
    X, labels, values = made(0, 60)
    table = np.stack([labels, np.where(values > 0, "x", "y")], axis=1).astype(object)
    model = TextClassifier(**KERNEL, conformal=0.8, calibration="cross").fit(X, table)
    assert model.conformal_.counts == (60, 60)
    assert all(q < 1 for q in model.conformal_.quantiles)
    numbers = TextRegressor(**KERNEL, conformal=0.8, calibration="cross")
    assert numbers.fit(X, np.stack([values, -values], 1)).conformal_.counts == (60, 60)


def test_a_class_of_one_row_is_outside_the_sets_of_the_model_without_it():
    X, labels, _ = made(0, 40)
    labels = labels.astype(object)
    labels[7] = "c"
    model = TextClassifier(**KERNEL, conformal=0.8, calibration="cross").fit(X, labels)
    assert model.conformal_.counts == (40,)
    with pytest.raises(ArgumentError, match="calibration is 'both'; expected one of split, cross"):
        TextClassifier(calibration="both").fit(X, labels)
