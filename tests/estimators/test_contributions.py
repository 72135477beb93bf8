"""Contributions of kernel and network sum to the score, on a hundred new examples of each task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
)

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


@pytest.mark.slow  # explanations of five hundred objects
@pytest.mark.parametrize("made", [texts, graphs, molecules, signals, language])
def test_contributions_of_a_hundred_examples_sum_to_their_scores(made: Callable[..., Case]) -> None:
    estimator, X, y, others = made(np.random.default_rng(0))
    model = estimator.fit(X) if y is None else estimator.fit(X, y)
    weights = {"kernel": 0.5, "network": 0.5}  # neither part is dropped
    model.targets_ = tuple(
        replace(one, pool=replace(one.pool, **weights)) for one in model.targets_
    )
    explained = model.explain(others)
    assert len(explained) == COUNT
    totals = [one.baseline + sum(c.contribution for c in one.contributions) for one in explained]
    scores = np.array([one.score for one in explained])
    print(f"largest difference of {COUNT} scores: {np.abs(np.array(totals) - scores).max():.1e}")
    np.testing.assert_allclose(totals, scores, rtol=0, atol=1e-6)
    assert {c.part for one in explained for c in one.contributions} == {"kernel", "network"}
    if made is molecules:
        np.testing.assert_allclose(scores, model.predict(others), rtol=1e-4, atol=1e-5)
    else:  # the forward pass is in float32
        logits = np.log(model.predict_proba(others))
        wanted = logits.max(1) - logits.mean(1)
        np.testing.assert_allclose(scores, wanted, rtol=1e-3, atol=1e-4)
