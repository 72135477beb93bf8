"""Tests of what the live view answers, for every kind of objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from both_halves import with_both
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    MoleculeClassifier,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)
from representer.serving import ServedModel
from representer.serving.live import Example, LiveView

SMALL: dict[str, Any] = {"epochs": 1, "hidden_size": 4, "random_state": 0, "verbose": 0}
# float64 sums of up to some hundred terms; the network's own score comes from a forward pass
CLOSE = 1e-6
TEXTS = ["a good film", "a bad film", "so very good", "so very bad", "good play", "bad play"] * 5
SMILES = ["C" * k + "O" * (k % 3) for k in range(1, 31)]


def of_texts() -> Any:
    return with_both(TextClassifier(**SMALL).fit(TEXTS, ["yes", "no"] * 15))


def of_molecules() -> Any:
    model = MoleculeRegressor(answer="network", members=2, **SMALL)  # a kernel would drop it
    return model.fit(SMILES, [float(len(one)) for one in SMILES])


def of_graphs() -> Any:
    graphs = []
    for n in range(4, 34):
        graph = nx.cycle_graph(n) if n % 2 else nx.path_graph(n)
        nx.set_node_attributes(graph, {v: "ab"[v % 3 == 0] for v in graph}, "label")
        graphs.append(graph)
    return GraphClassifier(**SMALL).fit(graphs, ["ring", "chain"] * 15)


def windows() -> np.ndarray:
    rng, time = np.random.default_rng(0), np.arange(200) / 100
    waves = [np.sin(2 * np.pi * (8 if k % 2 else 20) * time) for k in range(20)]
    return np.stack([wave + rng.normal(size=(2, 200)) for wave in waves]).astype(np.float32)


def of_signals() -> Any:
    return SignalClassifier(sampling_rate=100, **SMALL).fit(windows(), ["slow", "fast"] * 10)


def of_language() -> Any:
    text = "\n".join(["the dog barks", "the cat sleeps", "a dog sleeps"] * 20)
    return with_both(LanguageModel(level="word", **SMALL).fit(text))


def view_of(estimator: Any, folder: Path, examples: Any = ()) -> LiveView:
    """Return the view of a fitted estimator, saved and loaded."""
    estimator.save(folder / "run")
    return LiveView(ServedModel(folder / "run", device="cpu"), examples)


def sums(found: dict[str, Any]) -> tuple[float, float]:
    """Return the sum over the lines, and the sum over the places."""
    lines = found["constant"] + found["raises"]["sum"] + found["lowers"]["sum"]
    places = sum(one["raises"] + one["lowers"] for one in found["places"])
    for side in (found["raises"], found["lowers"]):
        listed = sum(one["contribution"] for one in side["lines"])
        assert abs(side["sum"]) >= abs(listed) - CLOSE
        assert side["count"] >= len(side["lines"])
        is_complete = side["count"] == len(side["lines"])
        assert not is_complete or listed == pytest.approx(side["sum"], abs=CLOSE)
    return lines, found["constant"] + found["elsewhere"] + places


GRAPH = '{"nodes": ["a", "b", "a", "zebra"], "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}'
CASES = {
    "text": (of_texts, "a film so very good ."),
    "molecule": (of_molecules, "CC(=O)Nc1ccc(O)cc1"),
    "graph": (of_graphs, GRAPH.replace("zebra", "b")),
    "language": (of_language, "the dog sleeps\na"),
}


@pytest.mark.parametrize("kind", CASES)
def test_contributions_and_places_sum_to_the_score_that_is_shown(kind: str, tmp_path: Path) -> None:
    make, typed = CASES[kind]
    view = view_of(make(), tmp_path)
    found = view.explain(view.find(typed, None))
    json.dumps(found, allow_nan=False)
    assert sums(found) == pytest.approx((found["score"],) * 2, abs=CLOSE)
    assert all(one["raises"] >= 0 >= one["lowers"] for one in found["places"])
    both = set() if kind == "molecule" else {"kernel"}
    assert set(found["parts"]) == both | {"network"}
    served = view.model.predict([view.find(typed, None)])[0]
    assert found["prediction"]["prediction"] == served["prediction"]
    if kind == "molecule":
        assert found["score"] == pytest.approx(served["prediction"], abs=1e-5)  # float32 network


def test_a_window_is_drawn_with_every_contribution(tmp_path: Path) -> None:
    examples = [Example("window 0", "A", windows()[0])]
    view = view_of(of_signals(), tmp_path, examples)
    with pytest.raises(ArgumentError, match="the number of an example"):
        view.find("1 2 3", None)
    found = view.explain(view.find(None, 0))
    assert sums(found)[0] == pytest.approx(found["score"], abs=CLOSE)
    drawn = [*found["filters"], *found["bands"]]
    total = sum(sum(one["values"]) for one in drawn) + sum(one["value"] for one in found["whole"])
    assert found["constant"] + total == pytest.approx(found["score"], abs=CLOSE)
    assert {len(one["values"]) for one in found["filters"]} == {len(found["spans"])}
    assert [one["name"] for one in found["filters"]][:2] == sorted(
        one["name"] for one in found["filters"]
    )[:2]
    named = [one["name"] for one in found["bands"]]
    times = [float(name.split()[1]) for name in named if name.startswith("waveform")]
    hertz = [float(name.split()[0]) for name in named if name.endswith("Hz")]
    assert (hertz, times) == (sorted(hertz), sorted(times))
    assert len(set(named)) == len(named) == len(hertz) + len(times)
    assert times, "the waveform is one of the views"
    assert len(found["traces"]) == len(found["channels"]) == 2
    assert view.describe()["examples"][0]["input"] is None


def test_another_word_changes_the_score_as_the_whole_model_says(tmp_path: Path) -> None:
    for estimator in (of_texts(), TextRegressor(**SMALL).fit(TEXTS, [1.5, -2.0] * 15)):
        view = view_of(estimator, tmp_path / type(estimator).__name__)
        text = "a film so very good"
        before = view.explain(text)["score"]
        found = view.change(text, 4)
        assert found["name"] == "good"
        known = len(estimator.inputs_.vocabulary) - 2  # without the two marks
        assert found["tried"] == known  # all words but this one, and no word
        rows = {one["name"]: one for one in found["raises"] + found["lowers"]}
        assert rows["bad"]["input"] == "a film so very bad"
        assert rows["(no word)"]["input"] == "a film so very"
        for one in rows.values():
            after = view.explain(one["input"])
            sign = 1 if one["label"] == found["of"] else -1  # of two classes
            assert sign * after["score"] - before == pytest.approx(one["change"], abs=1e-4)
    with pytest.raises(ArgumentError, match="below 5"):
        view.change(text, 5)


@pytest.mark.parametrize("scheme", ["words", "blanks", "leam"])
def test_a_text_made_of_its_words_has_the_same_words(scheme: Any, tmp_path: Path) -> None:
    estimator = TextClassifier(answer="kernel", tokenizer=scheme, random_state=0, verbose=0)
    view = view_of(estimator.fit(TEXTS, ["yes", "no"] * 15), tmp_path)
    words = view.kind.places("Don't go -- it's 3.5 kg (e.g. a dog's)! n't ... 'quoted' b2b")
    assert list(view.kind.places(" ".join(words))) == list(words)


def test_other_atoms_make_other_molecules(tmp_path: Path) -> None:
    from rdkit import Chem

    labels = ["long" if len(one) > 15 else "short" for one in SMILES]
    model = MoleculeClassifier(answer="kernel", random_state=0, verbose=0).fit(SMILES, labels)
    view = view_of(model, tmp_path)
    smiles = "c1cc[nH]c1CO"
    for place, atom in enumerate(Chem.MolFromSmiles(smiles).GetAtoms()):
        for name, typed in view.kind.changes(smiles, place):
            made = Chem.MolFromSmiles(typed)
            more = {"add": 1, "without": -1}.get(name.split()[0], 0)
            assert made.GetNumAtoms() == 7 + more, name
            assert name.split()[-1] == atom.GetSymbol() or more >= 0
    names = {name for name, _ in view.kind.changes("CO", 1)}
    assert {"N instead", "add C", "without O"} <= names
    assert not {name for name in names if name.startswith("O")}
    assert not any("F" in typed for _, typed in view.kind.changes("F", 0) if "F" not in typed)


def test_a_drawing_has_no_style_attribute(tmp_path: Path) -> None:
    view = view_of(of_molecules(), tmp_path)
    drawing = view.explain("CC(=O)Nc1ccc(O)cc1")["drawing"]
    assert "style=" not in drawing
    assert 'stroke-width="' in drawing
    large = view.explain("C" * 301)
    assert "drawing" not in large
    assert "Not drawn, since it has 301 atoms, more than 300." in large["notes"]


def test_a_graph_is_typed_as_it_is_read(tmp_path: Path) -> None:
    view = view_of(of_graphs(), tmp_path)
    graph = view.find(GRAPH, None)
    again = view.find(view.kind.typed(graph), None)
    assert again.nodes == graph.nodes
    assert sorted(again.edge_index.T.tolist()) == sorted(graph.edge_index.T.tolist())
    found = view.change(graph, 3)
    assert {one["name"] for one in found["raises"] + found["lowers"]} <= {"a", "b"}
    assert found["tried"] == 2
    explained = view.explain(graph)
    assert "'zebra'" in explained["notes"][0]
    points = np.array(explained["points"])
    assert points.min() == 0
    assert points.max() == 1
    chain = {"nodes": ["a"] * 151, "edges": [[v, v + 1] for v in range(150)]}
    large = view.explain(view.find(json.dumps(chain), None))
    assert "points" not in large
    assert "Not drawn, since it has 151 nodes, more than 150." in large["notes"]
    for wrong in (
        "[",
        "[1]",
        '{"nodes": 0, "edges": []}',
        '{"nodes": ["a"], "edges": [[0, 7]]}',
        "1",
    ):
        with pytest.raises(DataError):
            view.find(wrong, None)


def test_graphs_without_labels_are_typed_by_their_number_of_nodes(tmp_path: Path) -> None:
    graphs = [nx.cycle_graph(n) if n % 2 else nx.path_graph(n) for n in range(4, 34)]
    view = view_of(GraphClassifier(**SMALL).fit(graphs, ["ring", "chain"] * 15), tmp_path)
    ring = view.find('{"nodes": 4, "edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}', None)
    assert (ring.count, ring.nodes) == (4, None)
    assert json.loads(view.kind.typed(ring))["nodes"] == 4
    assert view.describe()["has_changes"] is False
    assert view.change(ring, 0)["tried"] == 0


def test_next_words_continue_the_text(tmp_path: Path) -> None:
    view = view_of(of_language(), tmp_path)
    following = view.explain("the dog")["prediction"]["next"]
    chances = [one["probability"] for one in following]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) <= 1 + CLOSE
    for one in following:
        end = "\n" if one["token"] == "<eos>" else " " + one["token"]
        assert one["input"] == "the dog" + end


def test_a_task_without_a_live_view_is_refused(tmp_path: Path) -> None:
    of_texts().save(tmp_path / "run")
    model = ServedModel(tmp_path / "run", device="cpu")
    model.task = "lists"
    with pytest.raises(KindError, match="text, language, molecule, graph, signal"):
        LiveView(model)
