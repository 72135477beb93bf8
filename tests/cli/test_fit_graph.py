"""``fit graph`` and what follows: evaluate, predict, explain, report, resume, and refusals."""

from __future__ import annotations

import json

import pytest

from cli.conftest import GRAPH, chains, metrics_of, rows_of
from representer.estimators import GraphRegressor, load


def test_a_classification_is_written_evaluated_and_predicted(run, graph_files, graph_run):
    metrics = metrics_of(graph_run)
    assert (metrics["task"], metrics["kind"]) == ("graph", "classification")
    assert metrics["test"]["count"] == 12
    names = [row["name"] for row in metrics["baselines"]]
    assert names == ["Weisfeiler-Lehman kernel + SVM", "majority class"]
    evaluated = json.loads(run("evaluate", graph_run, graph_files / "classes.jsonl").out)
    predicted = rows_of(run("predict", graph_run, graph_files / "classes.jsonl").out)
    assert [row["graph"] for row in predicted] == [str(n) for n in range(1, 61)]
    truth = [graph["label"] for graph in chains(60)]
    right = [row["prediction"] == label for row, label in zip(predicted, truth, strict=True)]
    assert evaluated["accuracy"] == pytest.approx(sum(right) / 60)


def test_a_regression_is_detected_and_predicted_with_deviations(run, graph_files, graph_regression):
    metrics = metrics_of(graph_regression)
    assert metrics["kind"] == "regression"
    assert metrics["model"] in ("kernel", "kernel + GraphRegressor")  # as their losses say
    out = run("predict", graph_regression, graph_files / "numbers.jsonl").out
    estimator = load(graph_regression)
    assert isinstance(estimator, GraphRegressor)
    assert (estimator.members, estimator.decay) == (2, "0.5")
    predicted = rows_of(out)
    assert all(float(row["uncertainty"]) > 0 for row in predicted)
    truth = [graph["share"] for graph in chains(60)]
    errors = [float(r["prediction"]) - t for r, t in zip(predicted, truth, strict=True)]
    evaluated = json.loads(run("evaluate", graph_regression, graph_files / "numbers.jsonl").out)
    assert evaluated["rmse"] == pytest.approx((sum(e * e for e in errors) / 60) ** 0.5, rel=1e-6)


def test_a_tu_folder_is_trained_on_and_evaluated(run, graph_files, tmp_path):
    out = tmp_path / "run"
    words = ["fit", "graph", graph_files / "tu", "--out", out, *GRAPH, "--baselines", "none"]
    outcome = run(*words)
    assert outcome.code == 0
    metrics = metrics_of(out)
    assert metrics["test"]["count"] == 12
    assert metrics["baselines"] == []
    assert json.loads(run("evaluate", out, graph_files / "tu").out)["count"] == 60


def test_tables_are_the_graphs_of_jsonl_and_predictions_keep_their_names(
    run, graph_files, graph_run, tmp_path
):
    tables = tmp_path / "tables"
    tables.mkdir()
    rows: dict[str, list[str]] = {"graphs": ["id,label"], "nodes": ["graph,node,kind"],
                                  "edges": ["graph,source,target,bond"]}  # fmt: skip
    for k, graph in enumerate(chains(60)):
        rows["graphs"].append(f"g{k},{graph['label']}")
        rows["nodes"] += [f"g{k},n{v},{kind}" for v, kind in enumerate(graph["nodes"])]
        rows["edges"] += [f"g{k},n{u},n{v},{bond}" for u, v, bond in graph["edges"]]
    for name, lines in rows.items():
        (tables / f"{name}.csv").write_text("\n".join(lines))
    out = tmp_path / "run"
    outcome = run("fit", "graph", tables, "--out", out, *GRAPH)
    assert outcome.code == 0, outcome.err
    assert "columns of graphs.csv: graph 'id', label 'label'; nodes.csv: graph " in outcome.err
    metrics = [metrics_of(one) for one in (out, graph_run)]
    assert metrics[0]["test"] == metrics[1]["test"]
    assert json.loads(run("evaluate", out, tables).out)["count"] == 60
    of_objects = rows_of(run("predict", out, graph_files / "classes.jsonl").out)
    (tables / "graphs.csv").write_text("\n".join(line.partition(",")[0] for line in rows["graphs"]))
    predicted = rows_of(run("predict", out, tables).out)
    assert [row.pop("id") for row in predicted] == [f"g{k}" for k in range(60)]
    assert predicted == [{name: cell for name, cell in row.items() if name != "graph"}
                         for row in of_objects]  # fmt: skip
    assert run("explain", out, tables, "--limit", "1", "--report").out.startswith("graph g0: ")
    details = json.loads((out / "details.json").read_text())
    assert all(entry["name"] == f"g{entry['row'] - 1}" for entry in details["examples"])
    names = {mistake["name"]: mistake["number"] for mistake in details["mistakes"]}
    assert all(name == f"g{number - 1}" for name, number in names.items())
    assert "Graph g" in (out / "report.html").read_text()
