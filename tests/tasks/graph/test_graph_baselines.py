"""The kernel baseline learns what a constant prediction cannot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from representer.options.graph import GraphReading
from representer.serving import ServedModel
from representer.tasks import graph as module
from representer.tasks.graph import FLOW, graph_baselines, rings_and_chains


def test_rings_are_told_from_chains():
    demo = rings_and_chains()
    values = np.array([label == "ring" for label in demo.labels], dtype=np.int64)
    train, test = demo.objects[:100], demo.objects[100:140]
    kernel, constant = graph_baselines(train, values[:100], test, is_regression=False)
    assert (kernel.predictions == values[100:140]).mean() > 0.9
    assert (constant.predictions == values[100:140]).mean() == 0.5
    assert "5-fold cross-validation" in kernel.description


def test_the_fraction_of_leaves_is_predicted_better_than_by_the_mean():
    graphs = rings_and_chains().objects
    degrees = [np.bincount(graph.edge_index[1]) for graph in graphs]
    values = np.array([(degree == 1).mean() for degree in degrees])
    kernel, constant = graph_baselines(graphs[:80], values[:80], graphs[80:], is_regression=True)
    errors = [np.abs(own.predictions - values[80:]).mean() for own in (kernel, constant)]
    assert errors[0] < errors[1] / 2
    assert constant.predictions[0] == values[:80].mean()


def test_a_class_with_one_graph_leaves_no_folds_and_many_graphs_no_gram_matrix(
    monkeypatch: pytest.MonkeyPatch,
):
    graphs, values = rings_and_chains().objects, np.array([0] * 9 + [1])
    kernel, _ = graph_baselines(graphs[:10], values, graphs[:5], is_regression=False)
    assert "cross-validation" not in kernel.description
    monkeypatch.setattr(module, "MOST", 9)
    assert len(graph_baselines(graphs[:10], values, graphs[:5], is_regression=False)) == 1


def test_a_run_finds_the_attributes_of_graphs_by_their_names(tmp_path):
    rng, graphs = np.random.default_rng(0), []
    for k in range(30):
        nodes = [{"id": i, "mass": 4 * (k % 2) + rng.normal(), "charge": 50 * rng.normal()}
                 for i in range(4)]  # fmt: skip
        links = [{"source": 0, "target": i} for i in range(1, 4)]
        graphs.append({"label": "ab"[k % 2], "nodes": nodes, "links": links})
    swapped = [graph | {"nodes": [dict(reversed(node.items())) for node in graph["nodes"]]}
               for graph in graphs]  # fmt: skip
    for name, some in (("data", graphs), ("other", swapped)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)) + "\n")
    run = tmp_path / "run"
    FLOW.fit(
        FLOW.declared.config(
            data=str(tmp_path / "data.jsonl"), out=str(run), answer="kernel", threads=1
        )
    )
    written = []
    for name in ("data", "other"):
        FLOW.predict(run, tmp_path / f"{name}.jsonl", tmp_path / f"{name}.csv", GraphReading())
        written.append((tmp_path / f"{name}.csv").read_text())
    assert written[0] == written[1]
    served = ServedModel(run)
    first, second = (served.read([some[0]])[0].nodes.tolist() for some in (graphs, swapped))
    assert first == second
