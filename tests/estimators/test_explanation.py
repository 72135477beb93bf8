"""An explanation by what people know: words, atoms, nodes, steps, channels; its HTML."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from fitted_examples import GRAPHS, fitted, windows

from representer.estimators import SequenceClassifier, SeriesClassifier
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
    assert repr(explanation).startswith(f"Explanation({explanation.prediction}, score ")
    assert len(repr(explanation)) < 200
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
