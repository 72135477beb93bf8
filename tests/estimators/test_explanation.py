"""An explanation by what people know: words, atoms, nodes, steps, channels; its HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
from fitted_examples import GRAPHS, fitted, windows

from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    MoleculeRegressor,
    SequenceClassifier,
    SequenceRegressor,
    SeriesClassifier,
    SeriesRegressor,
    SignalClassifier,
    TextClassifier,
)
from representer.estimators.explanation import Contribution, Explanation, Places
from representer.kernels import StringKernel

SERIES = np.random.default_rng(0).normal(size=(20, 2, 30))


@cache
def model_of(name: str) -> Any:
    if name == "series":
        model = SeriesClassifier(num_features=200, random_state=0, verbose=0)
        return model.fit(SERIES, [0, 1] * 10)
    if name == "sequence":
        kernel = StringKernel(1) + StringKernel(2, decay=0.5)
        model = SequenceClassifier(kernel=kernel, epochs=1, random_state=0, verbose=0)
        return model.fit(["abab", "abba", "cdcd", "cddc"] * 5, [0, 0, 1, 1] * 5)
    return fitted(name)


CASES: dict[str, tuple[Any, list[str]]] = {
    "TextClassifier": ("good book good unheard", ["good", "book", "good", "unheard"]),
    "MoleculeRegressor": ("CCO", ["C0", "C1", "O2", "whole molecule"]),
    "GraphClassifier": (GRAPHS[0], ["a 0", "b 1", "a 2"]),
    "SignalClassifier": (windows()[0][0], ["0.05 to 0.14 s"]),
    "series": (SERIES[0], ["step 0", "step 1"]),
    "sequence": ("abcd", ["a", "b", "c", "d"]),
}


@pytest.mark.parametrize("name", CASES)
def test_contributions_by_place_are_named_and_sum_to_the_score(name):
    one, names = CASES[name]
    (explanation,) = model_of(name).explain([one], 3)
    total = explanation.baseline + sum(line.contribution for line in explanation.by_place)
    assert total == pytest.approx(explanation.score, rel=1e-6, abs=1e-9)
    assert [line.what for line in explanation.by_place][: len(names)] == names
    total = explanation.baseline + sum(line.contribution for line in explanation.by_feature)
    assert total == pytest.approx(explanation.score, rel=1e-6, abs=1e-9)
    assert repr(explanation).startswith("Explanation(")
    assert len(repr(explanation)) < 200
    named, number = (replace(explanation, prediction=value) for value in ("yes", 2 / 3))
    assert repr(named).startswith("Explanation(yes, score ")
    assert repr(number).startswith("Explanation(0.666667, score ")
    assert "<b>0.666667</b>" in number._repr_html_()
    shown = explanation._repr_html_()
    assert "<summary>By " in shown
    assert ("<svg role" in shown) == (name not in ("TextClassifier", "sequence"))
    assert all(f">{row['what']}<" in shown for row in explanation.rows())


def test_each_place_has_an_equal_part_of_its_ngrams():
    parts = [Contribution("a b", (0, 1), "network", 1.0), Contribution("b", (1,), "kernel", -0.25)]
    explained = Explanation.of("x", 0.5, -0.25, parts, 5, Places.numbered(["a", "b", "c"]))
    first, second, third = explained.by_place
    assert (first.what, first.where, first.kernel, first.network) == ("a", (0,), 0.0, 0.5)
    assert (second.kernel, second.network, second.contribution) == (-0.25, 0.5, 0.25)
    assert third.contribution == 0.0


def test_contributions_without_a_place_come_last():
    parts = [Contribution("all", (), "kernel", 1.0), Contribution("all", (0, 1), "kernel", 2.0)]
    places = Places.numbered(["a", "b"], "whole graph", ("node", "walk"), ("kernel",))
    *nodes, whole = Explanation.of("x", 3.0, 0.0, parts, 5, places).by_place
    assert [node.contribution for node in nodes] == [0.0, 0.0]
    assert (whole.what, whole.contribution, whole.where) == ("whole graph", 3.0, ())


def test_names_are_text_in_a_notebook():
    parts = [Contribution("<b>", (0,), "kernel", 1.0)]
    shown = Explanation.of("<i>", 1.0, 0.0, parts, 5, Places.numbered(["<b>"]))._repr_html_()
    assert "<b>&lt;i&gt;</b>" in shown
    assert ">&lt;b&gt;<" in shown


def test_one_name_of_two_features_of_a_molecule_is_two_lines():
    model = model_of("MoleculeRegressor")
    (explanation,) = model.explain(["CCCO"], 100)
    assert all(len(line.places) == 1 for line in explanation.by_feature)


# Contributions of kernel and network sum to the score, on a hundred new examples of each task.


COUNT, TRAIN = 100, 60
QUIET: dict[str, Any] = {"random_state": 0, "verbose": 0, "epochs": 3, "hidden_size": 8}
Case = tuple[Any, Any, Any, Any]  # estimator, training objects, their targets, other objects


def texts(rng: np.random.Generator) -> Case:
    words = np.array(["the", "good", "bad", "old", "film", "play", "was", "very", "not"])
    drawn = [" ".join(rng.choice(words, rng.integers(3, 20))) for _ in range(TRAIN + COUNT)]
    labels = [text.split().count("good") > text.split().count("bad") for text in drawn[:TRAIN]]
    return TextClassifier(**QUIET), drawn[:TRAIN], labels, drawn[TRAIN:]


def graphs(rng: np.random.Generator) -> Case:
    drawn = []
    for i in range(TRAIN + COUNT):
        graph = nx.gnp_random_graph(int(rng.integers(4, 12)), 0.2 + 0.3 * (i % 2), seed=i)
        nx.set_node_attributes(graph, {v: int(rng.integers(3)) for v in graph}, "label")
        drawn.append(graph)
    labels = [i % 2 for i in range(TRAIN)]
    return GraphClassifier(**QUIET), drawn[:TRAIN], labels, drawn[TRAIN:]


def molecules(rng: np.random.Generator) -> Case:
    drawn = ["".join(rng.choice(list("CCCNOS"), rng.integers(3, 12))) for _ in range(TRAIN + COUNT)]
    sizes = [(text.count("O") - 1) * (text.count("N") - 1) for text in drawn[:TRAIN]]
    return MoleculeRegressor(**QUIET), drawn[:TRAIN], sizes, drawn[TRAIN:]


def signals(rng: np.random.Generator) -> Case:
    time, count = np.arange(100) / 100, TRAIN + COUNT
    hertz = np.where(np.arange(count) % 2, 8.0, 20.0)[:, None, None]
    waves = np.sin(2 * np.pi * (hertz * time + rng.random((count, 2, 1))))
    windows = waves + rng.normal(size=(count, 2, 100))
    labels = np.arange(TRAIN) % 2
    return SignalClassifier(**QUIET, sampling_rate=100), windows[:TRAIN], labels, windows[TRAIN:]


def language(rng: np.random.Generator) -> Case:
    words = np.array(list("abcdefg"))
    lines = [" ".join(rng.choice(words, rng.integers(3, 12))) for _ in range(TRAIN + COUNT)]
    return LanguageModel(**QUIET), "\n".join(lines[:TRAIN]), None, lines[TRAIN:]


def series(rng: np.random.Generator) -> Case:
    drawn = [rng.normal(size=(2, rng.integers(5, 60))) for _ in range(TRAIN + COUNT)]
    drawn[-1][0, 1:3] = np.nan
    labels = [x[0].mean() > 0 for x in drawn[:TRAIN]]
    model = SeriesClassifier(**QUIET, num_features=2000, answer="both")
    return model, drawn[:TRAIN], labels, drawn[TRAIN:]


def series_of_numbers(rng: np.random.Generator) -> Case:
    _, X, _, others = series(rng)
    model = SeriesRegressor(**QUIET, num_features=2000, answer="both")
    return model, X, [x[0].mean() for x in X], others


def dna(rng: np.random.Generator) -> Case:
    letters, drawn = [*"ACGT" * 9, "N"], []
    for _ in range(TRAIN + COUNT):
        drawn.append("".join(rng.choice(letters, rng.integers(8, 60))))
    counts = [x.count("A") > x.count("C") for x in drawn[:TRAIN]]
    return SequenceClassifier(**QUIET, answer="both"), drawn[:TRAIN], counts, drawn[TRAIN:]


def dna_of_numbers(rng: np.random.Generator) -> Case:
    _, X, _, others = dna(rng)
    return SequenceRegressor(**QUIET, answer="both"), X, [float(x.count("C")) for x in X], others


def events(rng: np.random.Generator) -> Case:
    names = ["home", "cart", "buy", "help", "log in"]
    drawn = [[*rng.choice(names, rng.integers(2, 15))] for _ in range(TRAIN + COUNT)]
    labels = ["buy" in x for x in drawn[:TRAIN]]
    return SequenceClassifier(**QUIET, answer="both"), drawn[:TRAIN], labels, drawn[TRAIN:]


def recentered(rng: np.random.Generator) -> Case:
    model, X, labels, others = signals(rng)
    return model.set_params(recenter="subject"), X, labels, others


OF_NUMBERS = (molecules, series_of_numbers, dna_of_numbers)


@pytest.mark.slow  # explanations of three thousand objects
@pytest.mark.parametrize(
    "made",
    [texts, graphs, signals, recentered, language, series, dna, events, *OF_NUMBERS],
)  # fmt: skip
def test_contributions_of_a_hundred_examples_sum_to_their_scores(made: Callable[..., Case]) -> None:
    estimator, X, y, others = made(np.random.default_rng(0))
    more = {"groups": np.arange(TRAIN) // 10} if made is recentered else {}
    model = estimator.fit(X, **more) if y is None else estimator.fit(X, y, **more)
    weights = {"kernel": 0.5, "network": 0.5}  # neither part is dropped
    model.targets_ = tuple(
        replace(one, pool=replace(one.pool, **weights)) for one in model.targets_
    )
    for answer in ("kernel", "network", "both"):
        part = model.part(answer)
        explained = part.explain(others)
        assert len(explained) == COUNT
        totals = [one.baseline + sum(c.contribution for c in one.contributions)
                  for one in explained]  # fmt: skip
        scores = np.array([one.score for one in explained])
        np.testing.assert_allclose(totals, scores, rtol=0, atol=1e-6)
        parts = {"kernel", "network"} if answer == "both" else {answer}
        assert {c.part for one in explained for c in one.contributions} == parts
        if made in OF_NUMBERS:
            np.testing.assert_allclose(scores, part.predict(others), rtol=1e-4, atol=1e-5)
        else:  # the forward pass is in float32
            logits = np.log(part.predict_proba(others))
            wanted = logits.max(1) - logits.mean(1)
            np.testing.assert_allclose(scores, wanted, rtol=1e-3, atol=1e-4)
