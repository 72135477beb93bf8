"""Promises of every estimator: it is saved, explained, repeated, cloned and searched."""

from __future__ import annotations

import json
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from fitted_examples import FITTED, fitted
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from both_halves import assert_sums, with_both
from representer import estimators
from representer.errors import ArgumentError, CheckpointError, DataError


class Case(NamedTuple):
    """A fitted estimator, what it was fitted to, and objects to predict."""

    model: Any
    X: Any
    y: Any
    objects: Any


FAST = ("TextClassifier", "GraphRegressor")  # of a promise that trains five times
SEARCHED = [pytest.param(k, marks=[] if k in FAST else [pytest.mark.slow]) for k in FITTED]


@pytest.fixture(params=FITTED)
def case(request) -> Case:
    _, X, y = FITTED[request.param]
    objects = ["a b\nd a", "a", ""] if request.param == "LanguageModel" else X[:8]
    return Case(fitted(request.param), X, y, objects)


def outputs(model: Any, objects: Any) -> np.ndarray:
    """Return probabilities, or numbers and their deviations."""
    is_classifier = hasattr(model, "predict_proba")
    return np.asarray(
        model.predict_proba(objects) if is_classifier else model.predict(objects, return_std=True)
    )


def test_a_saved_estimator_comes_back_and_another_starts_from_it(case, tmp_path):
    model, run = case.model, tmp_path / "run"
    model.save(run)
    expected = outputs(model, case.objects)
    for again in (type(model).load(run), estimators.load(run), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        np.testing.assert_array_equal(outputs(again, case.objects), expected)
        assert (again.inputs_, again.history_) == (model.inputs_, model.history_)
        assert again.get_params()["hidden_size"] == model.hidden_size
        assert str(again.target_) == str(model.target_)
    assert not list(run.glob("*.pkl"))
    with pytest.raises(ArgumentError, match="a folder without a run"):
        model.save(run)
    warm = clone(model).set_params(warm_start=str(run), epochs=1, lr=1e-12).fit(case.X, case.y)
    assert warm.inputs_ == model.inputs_
    for a, b in zip(warm.network_.parameters(), model.network_.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_it_learns_what_can_be_learned(case):
    model, objects = case.model, case.X[:3]
    if model.targets_ and case.y is not None:  # a text has no labels
        assert model.score(case.X, case.y) > 0.9
    if not hasattr(model, "predict_proba"):
        mean, std = model.predict(objects, return_std=True)
        assert mean.shape == std.shape == (3,)
        assert (std > 0).all()
    elif case.y is not None and len(model.targets_) == 1:
        assert model.classes_.tolist() == sorted({*case.y})
        np.testing.assert_allclose(model.predict_proba(objects).sum(1), 1)


def test_contributions_and_baseline_sum_to_the_score_of_the_prediction(case):
    predicted = outputs(case.model, case.objects)
    if len(case.model.targets_) > 1:
        predicted = predicted[0]  # the first target is explained
    for k, one in enumerate(case.model.explain(case.objects)):
        assert_sums(one, abs=1e-9)
        sizes = [abs(c.contribution) for c in one.contributions]
        assert sizes == sorted(sizes, reverse=True)
        if hasattr(case.model, "predict_proba"):
            logs = np.log(predicted[k])
            assert one.score == pytest.approx(logs.max() - logs.mean(), rel=1e-4, abs=1e-5)
        else:
            assert one.score == pytest.approx(predicted[0, k], rel=1e-5)


def test_the_same_seed_gives_the_same_network_and_no_global_state_changes(case):
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()
    new = clone(case.model).set_params(epochs=1, answer="network", n_jobs=1)
    one, two = (clone(new).fit(case.X, case.y) for _ in "ab")
    for a, b in zip(one.network_.parameters(), two.network_.parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert torch.get_num_threads() == before[2]


def test_constructing_stores_and_checks_nothing(case):
    model = type(case.model)(hidden_size=-1)
    assert model.get_params()["hidden_size"] == -1
    for name, value in (("lr", "0.1"), ("valid_fraction", "a tenth"), ("weight_decay", [0])):
        with pytest.raises(ArgumentError, match=rf"^{name} is .*; expected a number\.$"):
            clone(case.model).set_params(**{name: value}).check()
    with pytest.raises(ArgumentError, match="hidden_size is -1; expected a positive integer"):
        clone(case.model).set_params(hidden_size=-1, answer="network").fit(case.X, case.y)
    for use in (model.predict, model.explain, lambda X: model.score(X, case.y)):
        with pytest.raises(NotFittedError):
            use(case.objects)


@pytest.mark.parametrize("case", SEARCHED, indirect=True)
def test_scikit_learn_searches_and_validates(case):
    halves = KFold(2, shuffle=True, random_state=0)
    new = clone(case.model).set_params(epochs=1, answer="network")
    search = GridSearchCV(new, {"hidden_size": [2, 4]}, cv=halves).fit(case.X, case.y)
    assert search.best_params_["hidden_size"] in (2, 4)


# Files of a saved estimator with values that do not fit each other, or that the model cannot have.


def values_at(*path: Any, **changes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return where in a file of JSON values are changed; without any, nothing is left there."""
    return path, changes


DAMAGES = {  # by estimator: file, change, and what is said
    "GraphClassifier": [
        ("model.json", values_at("inputs", nodes={"labels": ["a"]}),
         "it has 2 features of a node; the model has 4"),
        ("model.json", values_at("inputs", nodes={"labels": [["a"]]}), "a label is not plain"),
        ("model.json", values_at("inputs", nodes={"labels": ["a"], "means": [0.0]}),
         "neither labels nor numbers"),
        ("model.json", values_at("inputs", edges=None),
         "it has 0 features of an edge; the model has 3"),
        ("model.json", values_at("target", names=["b", "c", "d"]),
         "it has 3 outputs; the model has 2"),
        ("model.json", values_at("network", members=0), "members is 0; expected 1 to 100"),
    ],
    "TextRegressor": [
        ("pool.json", values_at("targets", 0, "pool", kernel=-1.0), "pool"),
        ("pool.json", values_at("targets", 0, "pool", share=2.0), "pool"),
        ("pool.json", values_at("targets", 0, "calibrations"), "pool"),
        ("pool.json", values_at("targets", 0, "calibrations", "both", scales=[-1.0]), "pool"),
        ("pool.json", values_at("targets"), "pool"),
        ("kernel.json", values_at("machines", 0, "tokens", words=["a"]), "kernel"),
        ("kernel.json", values_at("machines", 0, "tokens"), "kernel"),
        ("kernel.json", values_at("machines"), "kernel"),
    ],
    "SignalClassifier": [
        ("model.json", values_at("inputs", num_channels=2), "does not match the channels"),
    ],
    "LanguageModel": [
        ("vocabulary.json", values_at(words=["<eos>", "<unk>", *"abcde"]),
         "it has 7 tokens; the model has 6"),
        *(("model.json", values_at(**change), r"model\.json: cannot be used") for change in (
            {"network": {}}, {"parameters": {"encoding": 5}}, {"parameters": {"cutoffs": 7}},
            {"parameters": {"unroll": "x"}})),
        *(("kernel.json", values_at(**change), r"kernel\.json: cannot be used") for change in (
            {"orders": 10**9}, {"decay": 1.5}, {"cache": -1}, {"x": 1})),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    [(name, *row) for name, rows in DAMAGES.items() for row in rows],
)
def test_values_that_do_not_fit_are_refused(name, file, change, message, tmp_path):
    with_both(fitted(name)).save(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    (path, changes), document = change, json.loads((tmp_path / "run" / file).read_text())
    values = document
    for key in path:
        values = values[key]
    values.update(changes) if changes else values.clear()
    (tmp_path / "run" / file).write_text(json.dumps(document))
    with pytest.raises((DataError, CheckpointError), match=message):
        estimators.load(tmp_path / "run")
