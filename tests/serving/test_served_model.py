"""Tests of what a server takes and returns for every kind of model."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from representer.data.graphs import read_graph_file
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import (
    GraphClassifier,
    MoleculeRegressor,
    SequenceClassifier,
    SeriesClassifier,
    SignalClassifier,
    TextClassifier,
)
from representer.estimators.graph_inputs import PlainGraph
from representer.serving import Limits, ServedModel

QUIET: dict[str, Any] = {
    "answer": "network", "epochs": 1, "hidden_size": 4, "random_state": 0, "verbose": 0,
}  # fmt: skip


def served(estimator: Any, folder: Path) -> ServedModel:
    """Return a fitted estimator, saved and loaded."""
    estimator.save(folder)
    return ServedModel(folder, device="cpu")


def answer(model: ServedModel, inputs: list[Any]) -> list[dict[str, Any]]:
    """Return predictions for inputs, both of them through JSON."""
    return json.loads(json.dumps(model.predict(model.read(json.loads(json.dumps(inputs))))))


def test_molecules_have_numbers_with_uncertainty_and_intervals(tmp_path: Path) -> None:
    smiles = ["C" * k + "O" * (k % 3) for k in range(1, 31)]
    lengths = [float(len(one)) for one in smiles]
    estimator = MoleculeRegressor(conformal=0.8, members=1, **QUIET).fit(smiles, lengths)
    (entry,) = answer(served(estimator, tmp_path / "run"), ["CCO"])
    mean, deviation = estimator.predict(["CCO"], return_std=True)
    assert entry["prediction"] == pytest.approx(mean[0], abs=1e-9)
    assert entry["uncertainty"] == pytest.approx(deviation[0], abs=1e-9)
    assert entry["low"] < entry["prediction"] < entry["high"]


def test_several_targets_have_names_or_numbers(tmp_path: Path) -> None:
    smiles = ["C" * k + "O" * (k % 3) for k in range(1, 31)]
    targets = np.array([[len(one), -len(one)] for one in smiles], dtype=float)
    estimator = MoleculeRegressor(members=1, **QUIET).fit(smiles, targets)
    model = served(estimator, tmp_path / "run")
    (entry,) = answer(model, ["CCO"])
    assert entry["targets"].keys() == {"1", "2"}
    expected = estimator.predict(["CCO"])[0]
    assert [one["prediction"] for one in entry["targets"].values()] == pytest.approx(expected)


def test_graphs_are_objects_as_in_json_lines(tmp_path: Path) -> None:
    graphs = [nx.cycle_graph(n) if n % 2 else nx.path_graph(n) for n in range(4, 34)]
    for graph in graphs:
        nx.set_node_attributes(graph, dict.fromkeys(graph, "a"), "label")
    estimator = GraphClassifier(**QUIET).fit(graphs, ["ring", "chain"] * 15)
    model = served(estimator, tmp_path / "run")
    chain = {"nodes": ["a"] * 6, "edges": [[k, k + 1] for k in range(5)]}
    found = answer(model, [chain, chain | {"edges": [*chain["edges"], [5, 0]]}])
    expected = estimator.predict_proba([graphs[2]])
    assert found[0]["probabilities"]["ring"] == pytest.approx(expected[0, 1], abs=1e-9)
    assert found[1]["probabilities"]["ring"] != pytest.approx(found[0]["probabilities"]["ring"])
    with pytest.raises(DataError, match=r"inputs\[1\]: .* ends at 9"):
        model.read([chain, {"nodes": ["a"], "edges": [[0, 9]]}])


def test_bracketed_trees_are_objects_of_a_model_of_trees(tmp_path: Path) -> None:
    texts = [f"({k % 2} (2 {'ab'[k % 2]}) (1 (2 c) (2 {'de'[k % 3 % 2]})))" for k in range(20)]
    (tmp_path / "trees.txt").write_text("\n".join(texts))
    read = read_graph_file(tmp_path / "trees.txt").graphs
    graphs = [PlainGraph(k, g.count, g.edge_index, g.nodes, g.edges) for k, g in enumerate(read)]
    options = {**QUIET, "network": "tree", "decay": "state"}
    estimator = GraphClassifier(**options).fit(graphs, [graph.label for graph in read])
    model = served(estimator, tmp_path / "run")
    found = answer(model, texts[:3])
    expected = estimator.predict_proba(graphs[:3])
    for entry, row in zip(found, expected, strict=True):
        assert [*entry["probabilities"].values()] == pytest.approx(row, abs=1e-9)
    with pytest.raises(DataError, match=r"inputs\[1\]: the tree is '\(0 a'; expected one tree"):
        model.read([texts[0], "(0 a"])


def test_objects_from_which_nothing_follows_have_a_note(tmp_path: Path) -> None:
    labels = ["yes", "no"] * 15
    texts = TextClassifier(answer="kernel", random_state=0, verbose=0)
    texts.fit(["good film", "bad film"] * 15, labels)
    reads = SequenceClassifier(answer="kernel", random_state=0, verbose=0)
    reads.fit(["ACGTTGACTC", "GGGTACCATT"] * 15, labels)
    visits = SequenceClassifier(answer="kernel", random_state=0, verbose=0)
    visits.fit([["home", "buy"], ["home", "help"]] * 15, labels)
    for estimator, empty in (
        (texts, ["", "qqqq zzzz"]), (reads, ["", "ACG", "------"]), (visits, [[], ["x"]]),
    ):  # fmt: skip
        model = served(estimator, tmp_path / str(id(estimator)))
        usual = {texts: "a bad one", reads: "ACGTTGAC", visits: ["x", "buy"]}[estimator]
        with pytest.warns(UserWarning, match=r"nothing that training had: X\[1\]"):
            entries = answer(model, [usual, *empty])
        assert ["note" in entry for entry in entries] == [False, *[True] * len(empty)]


def windows(count: int = 20) -> np.ndarray:
    """Return windows of two channels, every other one with a faster wave."""
    rng, time = np.random.default_rng(0), np.arange(100) / 100
    waves = [np.sin(2 * np.pi * (8 if k % 2 else 20) * time) for k in range(count)]
    return np.stack([wave + rng.normal(size=(2, 100)) for wave in waves]).astype(np.float32)


@pytest.mark.parametrize("standardize", ["training", "window"])
def test_a_stream_of_strides_equals_the_whole_window(tmp_path: Path, standardize: str) -> None:
    X = windows()
    estimator = SignalClassifier(sampling_rate=100, standardize=standardize, **QUIET)
    estimator.fit(X, ["slow", "fast"] * 10)
    model = served(estimator, tmp_path / "run")
    expected = estimator.predict_proba(X[:1])[0]
    (entry,) = answer(model, X[:1].tolist())
    assert [*entry["probabilities"].values()] == pytest.approx(expected, abs=1e-6)
    if standardize == "window":
        with pytest.raises(KindError, match="--standardize training"):
            model.stream()
        return
    step, stride = model.stream(), estimator.network_.config.stride
    for start in range(100 % stride, 100, stride):
        entry = step(X[0, :, start : start + stride].tolist())
    assert [*entry["probabilities"].values()] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(DataError, match="numbers"):
        step("samples")


def test_the_windows_of_a_request_are_standardized_as_those_of_one_subject(tmp_path: Path) -> None:
    X, scale = windows(), 50.0
    of_subject = (X - X.mean((0, 2), keepdims=True)) / X.std((0, 2), keepdims=True)
    estimator = SignalClassifier(sampling_rate=100, standardize="none", **QUIET)
    estimator.fit(of_subject, ["slow", "fast"] * 10)
    estimator.reading_ = {"is_standardized_by_subject": True}
    estimator.save(tmp_path / "run")
    model = ServedModel(tmp_path / "run", device="cpu")
    found = [entry["probabilities"]["slow"] for entry in answer(model, (scale * X).tolist())]
    assert found == pytest.approx(estimator.predict_proba(of_subject)[:, 1], abs=1e-5)
    with pytest.raises(KindError, match="--standardize training"):
        model.stream()


def test_explanations_of_every_kind_are_plain_json(tmp_path: Path, language_run: Path) -> None:
    graphs = [nx.cycle_graph(n) if n % 2 else nx.path_graph(n) for n in range(4, 34)]
    of_graphs = GraphClassifier(**QUIET).fit(graphs, ["ring", "chain"] * 15)
    signals = SignalClassifier(sampling_rate=100, **QUIET).fit(windows(), ["a", "b"] * 10)
    cases = [
        (served(of_graphs, tmp_path / "graphs"), graphs[:1]),
        (served(signals, tmp_path / "signals"), list(windows(1))),
        (ServedModel(language_run, device="cpu"), ["the dog"]),
    ]
    for model, objects in cases:
        (entry,) = model.explain(objects, 3)
        assert json.loads(json.dumps(entry)) == entry
        total = entry["constant"] + sum(one["contribution"] for one in entry["contributions"])
        assert total + entry["others"]["contribution"] == pytest.approx(entry["score"], abs=1e-5)


def test_an_object_beyond_a_limit_is_refused_before_it_costs_time(tmp_path: Path) -> None:
    smiles = ["C" * k + "O" * (k % 3) for k in range(1, 31)]
    molecules = MoleculeRegressor(members=1, **QUIET).fit(smiles, [float(k) for k in range(30)])
    model = served(molecules, tmp_path / "molecules")
    for wrong, problem in (("c1" + "c" * 9000 + "1", "9,001 atoms; at most 1,000"),
                           ("C" * 10_001, "10,001 characters; at most 10,000")):  # fmt: skip
        with pytest.raises(DataError, match=rf"inputs\[1\] has {problem}"):
            model.read(["CCO", wrong])
    assert model.read(["[CH3]" + "[CH2]" * 900]) != []  # 4,505 characters, 901 atoms
    graphs = [nx.cycle_graph(n) if n % 2 else nx.path_graph(n) for n in range(4, 34)]
    for graph in graphs:
        nx.set_node_attributes(graph, dict.fromkeys(graph, "a"), "label")
    of_graphs = GraphClassifier(**QUIET).fit(graphs, ["ring", "chain"] * 15)
    model = served(of_graphs, tmp_path / "graphs")
    model.limits = Limits(max_nodes=20, max_edges=30)
    with pytest.raises(DataError, match=r"inputs\[0\] has 21 nodes; at most 20"):
        model.read([{"nodes": ["a"] * 21, "edges": [[0, 1]]}])
    edges = [[u, v] for u in range(10) for v in range(u)]
    with pytest.raises(DataError, match="has 45 edges; at most 30"):
        model.read([{"nodes": ["a"] * 10, "edges": edges}])
    signals = SignalClassifier(sampling_rate=100, **QUIET).fit(windows(), ["slow", "fast"] * 10)
    model = served(signals, tmp_path / "signals")
    model.limits = Limits(max_samples=199)
    with pytest.raises(DataError, match="200 samples; at most 199"):
        model.read(windows(2).tolist())


def test_a_model_is_loaded_again_by_another_process(text_run: Path) -> None:
    model = ServedModel(text_run, device="cpu")
    again = pickle.loads(pickle.dumps(model))
    assert again.describe() == model.describe()
    assert again.predict(["good"]) == model.predict(["good"])


@pytest.mark.parametrize("standardize", ["training", "series"])
def test_a_stream_of_steps_equals_the_whole_series(tmp_path: Path, standardize: str) -> None:
    X = windows()
    estimator = SeriesClassifier(
        num_features=500, standardize=standardize, random_state=0, verbose=0
    ).fit(X, ["slow", "fast"] * 10)
    model = served(estimator, tmp_path / "run")
    if standardize == "series":
        with pytest.raises(ArgumentError, match="standardize"):
            model.stream()
        return
    step = model.stream()
    assert step([None, None]) == {"prediction": None}
    step = model.stream()
    for values in X[0].T.tolist():
        entry = step(values)
    expected = estimator.predict_proba(X[:1])[0]
    assert [*entry["probabilities"].values()] == pytest.approx(expected, abs=1e-6)
    for part in ("word", [1.0], [1.0, [2.0]]):
        with pytest.raises(DataError, match="channel"):
            step(part)
