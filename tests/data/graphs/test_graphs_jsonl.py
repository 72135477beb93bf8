"""Reading of JSONL graphs, and errors for invalid ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from representer.cli.main import task_of_data
from representer.data.graphs import read_graph_file, read_jsonl_graphs
from representer.data.graphs.records import parse_graph
from representer.errors import DataError

FIRST = {"nodes": ["a", "b", "a"], "edges": [[0, 1, "s"], [1, 2, "d"]], "label": "yes"}


def write(folder: Path, *graphs: dict[str, Any]) -> Path:
    path = folder / "graphs.jsonl"
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path


def test_edges_are_in_both_directions_with_their_labels(tmp_path: Path):
    loop = {"nodes": ["a"], "edges": [[0, 0, "s"]], "label": True}
    first, second = read_jsonl_graphs(write(tmp_path, FIRST, loop)).graphs
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert first.edges == ("s", "d", "s", "d")
    assert first.nodes == ("a", "b", "a")
    assert second.edge_index.tolist() == [[0], [0]]
    assert second.edges == ("s",)
    assert [(g.line, g.label) for g in (first, second)] == [(1, "yes"), (2, "true")]


def test_an_edge_listed_in_both_directions_counts_once_with_a_note(tmp_path: Path):
    twice = FIRST | {"edges": [*FIRST["edges"], [1, 0, "s"], [2, 1, "d"], [0, 1, "s"]]}
    read = read_jsonl_graphs(write(tmp_path, twice, FIRST))
    first, second = read.graphs
    assert first.edge_index.tolist() == second.edge_index.tolist()
    assert first.edges == second.edges
    assert read.notes == ("3 edges are listed twice; edges are undirected, so each counts once.",)
    assert read_jsonl_graphs(write(tmp_path, FIRST)).notes == ()


@pytest.mark.parametrize("name", ["edges.csv", "calls.graphml"])
def test_a_file_of_another_kind_is_refused_with_an_example(tmp_path: Path, name: str):
    with pytest.raises(DataError, match=r"expected \.jsonl with one graph a line.*\"nodes\""):
        read_graph_file(tmp_path / name)


def test_labels_are_optional_if_not_required(tmp_path: Path):
    path = write(tmp_path, {"nodes": [1], "edges": []})
    assert read_jsonl_graphs(path, require_labels=False).graphs[0].label is None
    with pytest.raises(DataError, match=r"line 1.*no 'label'"):
        read_jsonl_graphs(path)


@pytest.mark.parametrize(("changes", "message"), [
    ({"nodes": []}, "has no nodes"), ({"nodes": "ab"}, "'nodes' is not an array"),
    ({"edges": {}}, "'edges' is not an array"), ({"edges": [[0]]}, "an edge is not"),
    ({"edges": [[0, 3, "s"]]}, "ends at 3; expected a node from 0 to 2"),
    ({"edges": [[0, -1, "s"]]}, "ends at -1"), ({"edges": [[0, True, "s"]]}, "ends at true"),
    ({"edges": [[0, 1.0, "s"]]}, r"ends at 1\.0"),
    ({"edges": [[0, 1, "s"], [1, 0, "d"]]}, 'edge 1–0 occurs twice, with "s" and "d"'),
    ({"edges": [[0, 1, "s"], [1, 2]]}, "others do not"),
    ({"edges": [[0, 1]]}, "the edges have no features; those of line 1 have texts"),
    ({"edges": [[0, 1, [1]]]}, "the edges have 1 numbers each; those of line 1"),
    ({"nodes": [1, 2, 3]}, "the nodes have integers as labels; those of line 1"),
    ({"nodes": ["a", 1, "b"]}, "are texts, others are integers"),
    ({"nodes": ["a", None, "b"]}, "the label null"),
    ({"nodes": [[1], [2, 3], [4]]}, "1 and 2 numbers"),
    ({"nodes": [[1], ["x"], [4]]}, 'the feature "x"'),
    ({"nodes": [[1], [10**400], [4]]}, "the feature 1000"),
    ({"nodes": [1, 2**60, 3]}, "the label 1152921504606846976"),
    ({"label": ["x"]}, "neither a text nor a number"), ({"label": " "}, "the label is empty"),
    ({"label": None}, "has no label"),
])  # fmt: skip
def test_errors_for_invalid_graphs_name_the_line(tmp_path: Path, changes, message: str):
    with pytest.raises(DataError, match=rf"graphs\.jsonl, line 2.*{message}"):
        read_jsonl_graphs(write(tmp_path, FIRST, FIRST | changes))


@pytest.mark.parametrize("label", ['""', "[1]"])
def test_graphs_to_predict_may_have_any_label(tmp_path, label):
    path = tmp_path / "graphs.jsonl"
    path.write_text(f'{{"nodes": ["C"], "edges": [], "label": {label}}}\n')
    assert read_jsonl_graphs(path, require_labels=False).graphs[0].label is None
    with pytest.raises(DataError, match="the label is"):
        read_jsonl_graphs(path)


PYG = [
    {"edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "num_nodes": 4, "y": [1]},
    {"edge_index": [[0, 1], [1, 0]], "num_nodes": 2, "y": [0]},
]


def test_graphs_of_pyg_are_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(PYG))
    first, second = read_jsonl_graphs(path).graphs
    assert (first.count, first.nodes, first.label, second.label) == (4, None, "1", "0")
    assert sorted(zip(*first.edge_index.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert parse_graph(PYG[0]).edge_index.tolist() == first.edge_index.tolist()
    features = PYG[0] | {
        "x": [[0.5], [1.5], [2.5], [3.5]],
        "edge_attr": [[1.0], [1.0], [2.0], [2.0]],
    }
    path.write_text(json.dumps(features))
    (only,) = read_jsonl_graphs(path).graphs
    assert (only.nodes.tolist(), only.edges.tolist()) == (features["x"], [[1.0], [2.0]] * 2)


@pytest.mark.parametrize(("change", "message"), [
    ({"edge_index": [[0, 1]]}, "'edge_index' is not two arrays"),
    ({"edge_index": [[0], [1, 2]]}, "the arrays of 'edge_index' and 'edge_attr' differ in length"),
    ({"edge_index": [[0], [5]]}, "an edge ends at 5; expected a node from 0 to 3"),
    ({"num_nodes": 10**12}, "'num_nodes' is 1000000000000; expected 1 to 1,000,000"),
    ({"y": None}, "the graph has no label"),
])  # fmt: skip
def test_unusable_graphs_of_pyg_are_refused(tmp_path, change, message):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(PYG[0]) + "\n" + json.dumps(PYG[0] | change) + "\n")
    with pytest.raises(DataError, match=f"line 2: {re.escape(message)}"):
        read_jsonl_graphs(path)


@pytest.mark.parametrize("key", ["links", "edges"])
@pytest.mark.parametrize("is_multigraph", [False, True])
def test_graphs_of_networkx_are_read(tmp_path, key, is_multigraph):
    networkx = pytest.importorskip("networkx")
    graphs = []
    for label in ("ring", "path"):
        graph = (networkx.MultiGraph if is_multigraph else networkx.Graph)(label=label)
        graph.add_node("a", label="C")
        graph.add_node((0, 1), label="O")
        graph.add_node("lone", label="C")
        graph.add_edge((0, 1), "a", weight=1.5)
        graphs.append(networkx.node_link_data(graph, edges=key))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(graphs))
    first, second = read_jsonl_graphs(path).graphs
    assert (first.nodes, first.label, second.label) == (("C", "O", "C"), "ring", "path")
    assert sorted(zip(*first.edge_index.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert first.edges.tolist() == [[1.5], [1.5]]
    assert parse_graph(json.loads(json.dumps(graphs[1]))).nodes == ("C", "O", "C")
    assert task_of_data(path) == "graph"


NETWORKX = {
    "directed": False, "multigraph": False, "graph": {}, "y": 1,
    "nodes": [{"id": 5, "x": 1, "z": 2.5}, {"id": 7, "x": 3, "z": 0.5}],
    "links": [{"source": 5, "target": 7}],
}  # fmt: skip


def test_several_attributes_of_networkx_are_numbers(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(NETWORKX))
    (only,) = read_jsonl_graphs(path).graphs
    assert (only.nodes.tolist(), only.edges, only.label) == ([[1, 2.5], [3, 0.5]], None, "1")


@pytest.mark.parametrize(("change", "message"), [
    ({"links": [{"source": 5, "target": 0}]}, "an edge ends at 0, which is the 'id' of no"),
    ({"links": [[0, 1]]}, "'edges' is not an array of objects"),
    ({"nodes": [{"id": 5}, {"id": 5}]}, "the 'id' of a node is missing or occurs twice"),
    ({"nodes": [{"id": 5}, {"id": 7, "x": 1}]}, "some nodes lack an attribute of ['x']"),
    ({"nodes": [{"id": 5, "x": "a", "z": 1}, {"id": 7, "x": "b", "z": 1}]}, "the feature"),
    ({"y": None}, "the graph has no label"),
])  # fmt: skip
def test_unusable_graphs_of_networkx_are_refused(tmp_path, change, message):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(NETWORKX) + "\n" + json.dumps(NETWORKX | change) + "\n")
    with pytest.raises(DataError, match=f"line 2: .*{re.escape(message)}"):
        read_jsonl_graphs(path)


@pytest.mark.parametrize("form", ["own", "pyg", "networkx"])
def test_a_key_that_divides_the_graphs_is_named_as_ignored(tmp_path, form):
    forms = {
        "own": {"nodes": ["C", "O"], "edges": [[0, 1]]},
        "pyg": {"edge_index": [[0], [1]], "x": ["C", "O"]},
        "networkx": {"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]},
    }
    path = tmp_path / "graphs.jsonl"
    for parts, count in ((["train", "test"], 1), (["x", "y"], 0)):
        objects = [forms[form] | {"label": "a", "part": part} for part in parts]
        if form == "networkx":
            objects = [forms[form] | {"graph": {"label": "a", "part": part}} for part in parts]
        path.write_text("\n".join(map(json.dumps, objects)))
        notes = read_jsonl_graphs(path).notes
        assert len(notes) == count
        assert not count or "Column 'part' is ignored" in notes[0]


def test_nodes_that_many_graphs_declare_without_edges_are_refused(tmp_path: Path):
    path = tmp_path / "g.jsonl"
    graph = {"edge_index": [[0], [1]], "num_nodes": 40_000}
    path.write_text("".join(json.dumps(graph | {"y": k % 2}) + "\n" for k in range(4)))
    with pytest.raises(
        DataError, match=r"line 3: the graphs up to here declare over 100,000 nodes"
    ):
        read_graph_file(path)
    ring = [[*range(40_000)], [*range(1, 40_000), 0]]
    long = json.dumps({"edge_index": ring, "num_nodes": 40_000, "y": 1})
    path.write_text("".join(f"{long}\n" for _ in range(3)))
    assert [x.count for x in read_graph_file(path).graphs] == [40_000] * 3
