"""The report of a fitted estimator shows its results, in one file without external resources."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")
pytest.importorskip("rdkit")

import networkx as nx
from sklearn.exceptions import NotFittedError

from page_checks import faults
from representer import estimators
from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier
from representer.estimators.results import parameter_counts
from representer.report.metrics import (
    count,
    decimals_of,
    effective_count,
    rounded,
    signed,
    wilson_interval,
)
from representer.report.summary import parts_sentence
from undrawn import undrawn

DRAWN = ("TextClassifier", "MoleculeRegressor", "LanguageModel")  # drawing takes most of the time
TINY: dict[str, Any] = {"epochs": 2, "random_state": 0, "verbose": 0}
WORDS = ["sun", "rain", "wind", "snow", "fog"]
TEXTS = [f"the {a} and the {b}" for a in WORDS for b in WORDS] * 2
IS_WET = [("rain" in text) or ("snow" in text) for text in TEXTS]
LABELS = np.where(IS_WET, "wet", "dry").tolist()
GRAPHS = [nx.cycle_graph(3 + k % 5) if k % 2 else nx.path_graph(3 + k % 5) for k in range(40)]
SMILES = [("C" * (k % 6 + 3)) + ("O" if k % 2 else "N") for k in range(40)]
SIGNALS = (
    np.random.default_rng(0).normal(size=(24, 2, 60))
    + np.sin(np.outer(np.tile([0.5, 1.5], 12), np.arange(60)))[:, None]
)
LINES = "the sun and the rain\nthe rain and the wind\n" * 20


def numbers(count: int) -> np.ndarray:
    return np.arange(count) % 7 + 0.5 * (np.arange(count) % 2)


SERIES = {"answer": "both", "num_features": 700, "hidden_size": 4}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "TextClassifier": ({"hidden_size": 8, "embedding_size": 8}, TEXTS, LABELS),
    "TextRegressor": ({"hidden_size": 8, "embedding_size": 8}, TEXTS, numbers(50)),
    "GraphClassifier": ({"hidden_size": 8}, GRAPHS, [k % 2 for k in range(40)]),
    "GraphRegressor": ({"hidden_size": 8}, GRAPHS, numbers(40)),
    "MoleculeClassifier": ({"hidden_size": 8, "members": 2}, SMILES, ["n", "y"] * 20),
    "MoleculeRegressor": (
        {"hidden_size": 8, "members": 2}, SMILES, np.stack([numbers(40), -numbers(40)], axis=1)
    ),
    "SignalClassifier": (
        {"sampling_rate": 50.0, "hidden_size": 4, "filter_length": 10, "stride": 10},
        SIGNALS, ["slow", "fast"] * 12,
    ),
    "LanguageModel": ({"hidden_size": 8}, LINES, None),
    "SequenceClassifier": ({"hidden_size": 8}, WORDS * 8, ["a", "b"] * 20),
    "SequenceRegressor": ({"hidden_size": 8}, WORDS * 8, numbers(40)),
    "SeriesClassifier": (SERIES, [one[0] for one in SIGNALS], ["slow", "fast"] * 12),
    "SeriesRegressor": (SERIES, SIGNALS, numbers(len(SIGNALS))),
}  # fmt: skip


FAST = (*DRAWN, "SignalClassifier")  # one of each page; the others of the same kind are slow
EVERY = [pytest.param(k, marks=[] if k in FAST else [pytest.mark.slow]) for k in CASES]


@pytest.fixture(scope="session", params=EVERY)
def fitted(request) -> tuple[Any, Any, Any]:
    options, X, y = CASES[request.param]
    kind = getattr(estimators, request.param)
    return kind(**TINY | options).fit(*([X] if y is None else [X, y])), X, y


def page_of(
    estimator: Any, folder: Path, *given: Any, is_drawn: bool = False, **options: Any
) -> str:
    is_drawn = is_drawn and type(estimator).__name__ in DRAWN
    with nullcontext() if is_drawn else undrawn():
        estimator.report(folder / "page.html", *given, **options)
    return (folder / "page.html").read_text(encoding="utf-8")


def shown(share: float) -> str:
    return f"{100 * share:.1f}\u202f%"


def test_there_is_a_case_for_every_estimator():
    assert set(CASES) == set(estimators.ESTIMATORS)


def test_the_page_is_one_file_that_says_what_was_fitted(fitted, tmp_path):
    estimator, X, y = fitted
    page = page_of(estimator, tmp_path, is_drawn=True)
    assert not re.search(r"<script|<link|@import|(src|href)\s*=\s*[\"'](?!#)|url\((?!#)", page)
    assert f"<h1>{type(estimator).__name__}: " in page
    train, valid = (estimator.examples_[part] for part in ("train", "valid"))
    assert f"{train} training" in page
    assert f"{valid} validation" in page
    if y is not None:
        assert (train + valid, train > valid > 0) == (len(X), True)
    assert parts_sentence({name: part._asdict() for name, part in estimator.parts_.items()}) in page
    assert f"<dt>random_state</dt><dd>{estimator.random_state}</dd>" in page
    assert f"{parameter_counts(estimator)['all']:,}".replace(",", "\u202f") in page
    assert '<h2 id="learning-curves">Learning curves</h2>' in page
    assert faults(page) == []
    assert "Test results" not in page
    assert "Explained predictions" not in page


def test_given_objects_and_targets_it_shows_their_scores_with_intervals(fitted, tmp_path):
    estimator, X, y = fitted
    page = page_of(estimator, tmp_path, X, y, is_drawn=True)
    if y is None:
        card = re.search(r"<b>([\d.]+)</b>\s<span>test perplexity per token; "
                         r"95\u202f% interval ([\d.]+) to ([\d.]+)<", page)  # fmt: skip
        assert card
        perplexity, low, high = map(float, card.groups())
        assert perplexity == pytest.approx(estimator.perplexity(X), abs=0.005)
        assert low < perplexity < high
        return
    if hasattr(estimator, "classes_"):
        accuracy = estimator.score(X, y)
        count = effective_count(estimator.digests(estimator.checked_objects(X)))  # X has copies
        low, high = wilson_interval(accuracy * count, count)
        assert f"<b>{shown(accuracy)}</b>" in page
        assert f"95\u202f% interval {shown(low)} to {shown(high)}</span>" in page
        assert "Expected calibration error: " in page
        return
    errors = (np.asarray(y) - estimator.predict(X)).reshape(len(X), -1)
    for error in (errors**2).mean(axis=0) ** 0.5:
        assert f">{rounded(error)}</b>" in page
    assert "its 95\u202f% intervals contain" in page
    assert len(re.findall(r"<h2.*?>Test results", page)) == errors.shape[1]


def test_the_first_objects_are_explained(fitted, tmp_path):
    estimator, X, y = fitted
    page = page_of(estimator, tmp_path, X, k=2, examples=3)
    assert "Test results" not in page
    assert page.count('<article class="explained">') == 3
    assert faults(page) == []
    first = X[:1] if y is not None else [LINES.splitlines()[0]]
    (explanation,) = estimator.explain(first, 2)
    entry = page[page.index('<article class="explained">') :]
    entry = entry[: entry.index("</article>")]
    largest = explanation.lines[0].contribution
    decimals = decimals_of([largest])
    assert f">{signed(explanation.score, decimals)}</td>" in entry
    assert f">{signed(largest, decimals)}</td>" in entry
    assert f"all {count(len(explanation.lines) - 2)} others</td>" in entry


def test_the_page_of_a_loaded_estimator_shows_the_same_results(fitted, tmp_path):
    estimator, X, y = fitted
    estimator.save(tmp_path / "run")
    loaded = estimators.load(tmp_path / "run")
    assert loaded.examples_ == estimator.examples_
    ours, theirs = (one._results_of(one, X, y, 3, 2) for one in (estimator, loaded))
    assert theirs.metrics["test"] == ours.metrics["test"]
    assert theirs.history == ours.history
    assert theirs.explained == ours.explained
    assert theirs.details["data"] == ours.details["data"]


@pytest.fixture(scope="session")
def kernel() -> TextClassifier:
    return TextClassifier(answer="kernel", **TINY).fit(TEXTS, LABELS)


def test_a_kernel_machine_alone_has_no_learning_curves(kernel, tmp_path):
    page = page_of(kernel, tmp_path, TEXTS, LABELS)
    assert "Learning curves" not in page
    assert "<dt>kernel</dt>" in page
    assert "<dt>answer</dt><dd>kernel</dd>" in page


def test_errors_are_listed_by_their_rows(kernel, tmp_path):
    truth = list(LABELS)
    truth[3] = "wet" if truth[3] == "dry" else "dry"
    page = page_of(kernel, tmp_path, TEXTS, truth)
    row = re.search(r"<li>row of X <b>(\d+)</b>: true (\w+), predicted", page)
    assert row
    assert row.groups() == ("3", truth[3])
    assert f'<span class="excerpt">{TEXTS[3]}</span>' in page
    assert "Where the worst of them come from" in page


def test_a_cell_without_contributions_gives_the_reason(tmp_path):
    model = TextClassifier(answer="network", cell="torch-lstm", hidden_size=8, **TINY)
    page = page_of(model.fit(TEXTS, LABELS), tmp_path, TEXTS, LABELS)
    assert "<dt>explanations</dt><dd>none: " in page
    assert "Explained predictions" not in page


@pytest.mark.parametrize(("given", "options", "message"), [
    ([None, LABELS], {}, "X is None; expected the texts that y belongs to"),
    ([TEXTS, LABELS[1:]], {}, "X has 50 rows and y has 49"),
    ([TEXTS, ["foggy"] * 50], {}, r"y\[0\] is 'foggy'"),
    ([], {"k": -1}, "k is -1; expected 0 or more"),
    ([], {"examples": 1.5}, "examples is 1.5; expected 0 or more"),
])  # fmt: skip
def test_invalid_arguments_are_rejected_and_nothing_is_written(
    kernel, tmp_path, given, options, message
):
    with pytest.raises((ArgumentError, DataError), match=message):
        page_of(kernel, tmp_path, *given, **options)
    assert not list(tmp_path.iterdir())


def test_an_estimator_that_is_not_fitted_has_no_report(tmp_path):
    with pytest.raises(NotFittedError):
        page_of(TextClassifier(), tmp_path)


def test_targets_that_are_all_unknown_are_refused(tmp_path):
    model = estimators.GraphRegressor(hidden_size=8, **TINY).fit(GRAPHS, numbers(40))
    with pytest.raises(DataError, match="y has no known value"):
        page_of(model, tmp_path, GRAPHS, [np.nan] * 40)
