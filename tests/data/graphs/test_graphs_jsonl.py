"""Reading of JSONL graphs, and errors for invalid ones."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from representer.cli.main import task_of_data
from representer.data.graphs import (
    read_bracketed_trees,
    read_graph_file,
    read_graph_tables,
    read_jsonl_graphs,
    read_tu,
    tree_record,
)
from representer.data.graphs.reading import is_bracketed
from representer.data.graphs.records import parse_graph
from representer.errors import ArgumentError, DataError

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


def test_attributes_of_networkx_are_in_the_order_of_the_first_graph_or_of_training(tmp_path):
    nodes = [{"z": node["z"], "more": 0, "x": node["x"], "id": node["id"]}
             for node in NETWORKX["nodes"]]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(NETWORKX) + "\n" + json.dumps(NETWORKX | {"nodes": nodes}) + "\n")
    read = read_jsonl_graphs(path)
    assert read.columns == {"nodes": ["x", "z"]}
    assert [graph.nodes.tolist() for graph in read.graphs] == [[[1, 2.5], [3, 0.5]]] * 2
    swapped = read_jsonl_graphs(path, columns={"nodes": ["z", "x"]})
    assert swapped.graphs[0].nodes.tolist() == [[2.5, 1], [0.5, 3]]
    parsed = parse_graph(NETWORKX, {"nodes": ["z", "x"]})
    assert np.asarray(parsed.nodes).tolist() == [[2.5, 1], [0.5, 3]]


@pytest.mark.parametrize(("change", "message"), [
    ({"links": [{"source": 5, "target": 0}]}, "an edge ends at 0, which is the 'id' of no"),
    ({"links": [[0, 1]]}, "'edges' is not an array of objects"),
    ({"nodes": [{"id": 5}, {"id": 5}]}, "the 'id' of a node is missing or occurs twice"),
    ({"nodes": [{"id": 5}, {"id": 7, "x": 1}]}, "some nodes lack an attribute of ['x', 'z']"),
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


# Reading of bracketed trees, and errors for invalid ones.


LINE = "(3 (2 It) (4 (3 works) (2 (2 well) (2 .))))"


def write_brackets(folder: Path, text: str, name: str = "trees.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_words_are_nodes_and_the_label_of_the_root_is_the_class(tmp_path):
    read = read_graph_file(write_brackets(tmp_path, f"{LINE}\n\n(0 Bad)\n"))
    first, second = read.graphs
    assert first.nodes == ("()", "It", "()", "works", "()", "well", ".")
    assert first.edge_index.tolist() == [[1, 2, 3, 4, 5, 6], [0, 0, 2, 2, 4, 4]]
    assert (first.line, first.label, first.edges) == (1, "3", None)
    assert (second.line, second.label, second.nodes, second.count) == (3, "0", ("Bad",), 1)
    assert second.edge_index.shape == (2, 0)


def test_the_sentiment_of_phrases_is_no_feature():
    other = LINE.replace("(4 (3 works)", "(0 (1 works)")
    assert tree_record(other).nodes == tree_record(LINE).nodes


def test_words_beside_brackets_are_leaves():
    assert tree_record("(a b (c d e) f)").nodes == ("()", "b", "()", "d", "e", "f")


def test_files_of_brackets_are_recognized_and_belong_to_the_task_of_graphs(tmp_path):
    assert task_of_data(write_brackets(tmp_path, LINE)) == "graph"
    assert not is_bracketed(write_brackets(tmp_path, "(He) said it.\nfoo", "a.txt"))
    assert not is_bracketed(write_brackets(tmp_path, '{"nodes": ["(a)"]}', "a.jsonl"))
    assert not is_bracketed(tmp_path / "missing.txt")


@pytest.mark.parametrize(("line", "problem"), [
    ("(3 (2 It)", "is not one tree"), ("(3 It) (2 was)", "is not one tree"), ("word", "no label"),
    ("((2 It) (3 works))", "no label"),
])  # fmt: skip
def test_the_message_names_the_line_and_an_example(tmp_path, line, problem):
    path = write_brackets(tmp_path, f"{LINE}\n{line}\n")
    with pytest.raises(DataError, match=rf"line 2.*{problem}.*\(3 \(2 It\)|:2.*{problem}"):
        read_bracketed_trees(path)


def test_labels_are_not_required_for_predictions(tmp_path):
    path = write_brackets(tmp_path, "((2 It) (3 works))")
    (tree,) = read_bracketed_trees(path, require_labels=False).graphs
    assert tree.nodes == ("()", "It", "works")
    assert tree.label is None


def test_one_tree_is_read_without_a_file():
    assert tree_record(LINE).label == "3"
    with pytest.raises(ArgumentError, match="one tree"):
        tree_record("(3 It")


# Graphs from tables of graphs, nodes and edges: their columns, and errors that name the cell.


GRAPHS = "id,label\ng1,ether\n7,aldehyde\n"
NODES = "graph,node,kind\ng1,a,C\n7,1,C\ng1,b,O\ng1,c,C\n7,0,O\n"
EDGES = "graph,source,target,bond\ng1,a,b,single\n7,0,1,double\ng1,c,b,single\n"


def write_tables(
    folder: Path, graphs: str = GRAPHS, nodes: str = NODES, edges: str = EDGES
) -> Path:
    for name, text in (("graphs", graphs), ("nodes", nodes), ("edges", edges)):
        (folder / f"{name}.csv").write_text(text)
    return folder


def plain(graph) -> tuple:
    """Return what a graph has, apart from its line."""
    values = [one.tolist() if isinstance(one, np.ndarray) else one for one in
              (graph.edge_index, graph.nodes, graph.edges)]  # fmt: skip
    return graph.count, *values, graph.label


def test_tables_are_the_graphs_of_the_same_jsonl_file(tmp_path):
    lines = [
        {"nodes": ["C", "O", "C"], "edges": [[0, 1, "single"], [2, 1, "single"]], "label": "ether"},
        {"nodes": ["C", "O"], "edges": [[1, 0, "double"]], "label": "aldehyde"},
    ]
    (tmp_path / "graphs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    expected = read_jsonl_graphs(tmp_path / "graphs.jsonl").graphs
    (tmp_path / "graphs.jsonl").unlink()
    read = read_graph_file(write_tables(tmp_path))
    assert [plain(one) for one in read.graphs] == [plain(one) for one in expected]
    assert [one.line for one in read.graphs] == [2, 3]
    assert [path.name for path in read.files] == ["graphs.csv", "nodes.csv", "edges.csv"]
    assert read.notes == (
        "columns of graphs.csv: graph 'id', label 'label'; nodes.csv: graph 'graph', node 'node', "
        "labels 'kind'; edges.csv: graph 'graph', source 'source', target 'target', labels 'bond'",
    )
    assert read.table is not None
    assert read.table.rows == [["g1", "ether"], ["7", "aldehyde"]]


def test_columns_without_a_known_name_are_found_by_position_and_an_index_is_none(tmp_path):
    edges = ",mol,begin,end\n0,g1,a,b\n1,7,0,1\n"
    nodes = "mol,atom,x,y\ng1,a,0,0.5\ng1,b,1,1e3\n7,0,2,-1\n7,1,3,.5\n"
    read = read_graph_tables(write_tables(tmp_path, "name,value\ng1,0.25\n7,1\n", nodes, edges))
    first, second = read.graphs
    assert np.asarray(first.nodes).tolist() == [[0, 0.5], [1, 1000]]
    assert np.asarray(second.nodes).tolist() == [[2, -1], [3, 0.5]]
    assert first.edges is None
    assert (first.label, second.label) == ("0.25", "1")
    assert "nodes.csv: graph 'mol', node 'atom', numbers 'x', 'y'" in read.notes[0]
    assert "edges.csv: graph 'mol', source 'begin', target 'end'" in read.notes[0]


def test_columns_of_features_are_found_by_the_names_of_training(tmp_path):
    nodes = "graph,node,x,y\ng1,a,0,0.5\ng1,b,1,1e3\n7,0,2,-1\n7,1,3,.5\n"
    edges = "graph,source,target,w\ng1,a,b,2\n7,0,1,3\n"
    first = read_graph_tables(write_tables(tmp_path, nodes=nodes, edges=edges))
    assert first.columns == {"nodes": ["x", "y"], "edges": ["w"]}
    nodes = "graph,node,y,note,x\ng1,a,0.5,q,0\ng1,b,1e3,q,1\n7,0,-1,q,2\n7,1,.5,q,3\n"
    folder = write_tables(tmp_path, nodes=nodes, edges=edges)
    for features in ("attributes", "auto"):  # whatever other columns there are
        second = read_graph_tables(folder, columns=first.columns, features=features)
        assert [plain(graph) for graph in second.graphs] == [plain(graph) for graph in first.graphs]
    assert "numbers 'x', 'y', unused, see --features, 'note'" in second.notes[0]
    message = "there is no column 'z', which .* The columns are 'y', 'note', 'x'; name them as"
    with pytest.raises(DataError, match=message):
        read_graph_tables(folder, columns={"nodes": ["x", "z"]}, features="attributes")


def test_texts_and_numbers_are_chosen_between_by_the_option_of_tu_folders(tmp_path):
    nodes = "graph,id,element,label,x\ng1,a,C,1,0\ng1,b,O,2,1\ng1,c,C,1,2\n7,0,C,1,3\n7,1,C,1,4\n"
    folder = write_tables(tmp_path, nodes=nodes)
    read = read_graph_tables(folder)
    assert read.graphs[0].nodes == ("C,1", "O,2", "C,1")  # integers named label are labels
    assert "labels 'element', 'label', unused, see --features, 'x'" in read.notes[0]
    numbers = read_graph_file(folder, features="attributes").graphs
    assert np.asarray(numbers[0].nodes).tolist() == [[0], [1], [2]]
    assert numbers[0].edges is None  # the edges have no numbers


def test_an_edge_in_both_directions_counts_once_and_graphs_without_edges_have_none(tmp_path):
    edges = "graph,from,to\ng1,a,b\ng1,b,a\ng1,c,c\n"
    read = read_graph_tables(write_tables(tmp_path, edges=edges))
    assert [one.edge_index.tolist() for one in read.graphs] == [[[0, 2, 1], [1, 2, 0]], [[], []]]
    assert read.notes[1] == "1 edge is listed twice; edges are undirected, so each counts once."


def test_labels_of_tables_are_optional_if_not_required(tmp_path):
    folder = write_tables(tmp_path, graphs="graph,size\ng1,3\n7,2\n")
    assert [g.label for g in read_graph_tables(folder, require_labels=False).graphs] == [None] * 2
    assert [g.label for g in read_graph_tables(folder).graphs] == ["3", "2"]  # by position
    write_tables(folder, graphs="graph\ng1\n7\n")
    with pytest.raises(DataError, match=r"graphs\.csv: no column is left for the label.*'graph'"):
        read_graph_tables(folder)


def test_the_tables_may_have_other_formats(tmp_path):
    read = read_graph_tables(write_tables(tmp_path)).graphs
    (tmp_path / "nodes.csv").unlink()
    rows = [dict(zip(("graph", "node", "kind"), line.split(","), strict=True))
            for line in NODES.splitlines()[1:]]  # fmt: skip
    rows = [row | {"node": int(row["node"]) if row["node"].isdecimal() else row["node"]}
            for row in rows]  # fmt: skip
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "edges.csv").unlink()
    with gzip.open(tmp_path / "edges.tsv.gz", "wt") as file:
        file.write(EDGES.replace(",", "\t"))
    again = read_graph_file(tmp_path).graphs
    assert [plain(one) for one in again] == [plain(one) for one in read]


@pytest.mark.parametrize(("changed", "message"), [
    ({"edges": EDGES + "g1,a,d,single\n"},
     r"edges\.csv, line 5, column 'target': the graph has no node 'd'; its nodes are 'a', 'b', "
     r"'c'\. Correct the edge, or add the node"),
    ({"edges": EDGES + "g1,0,a,single\n"},
     r"edges\.csv, line 5, column 'source': the graph has no node '0'"),
    ({"edges": EDGES + "g2,a,b,single\n"},
     r"edges\.csv, line 5, column 'graph': the graph 'g2' is not in graphs\.csv\. Add it"),
    ({"edges": EDGES + "g1,b,a,double\n"},
     r'edges\.csv, line 5, .*the edge b–a occurs twice, with "single" and "double".*Keep one'),
    ({"nodes": NODES + "\n8,0,C\n"},
     r"nodes\.csv, line 8, column 'graph': the graph '8' is not in graphs\.csv"),
    ({"nodes": NODES + "g1,b,C\n"},
     r"nodes\.csv, line 7, column 'node': the node 'b' of this graph is listed twice"),
    ({"graphs": GRAPHS + "g3,ether\n"},
     r"graphs\.csv, line 4, column 'id': the graph has no nodes\. Add its nodes to nodes\.csv"),
    ({"graphs": GRAPHS + "g1,ether\n"}, r"line 4, column 'id': the graph 'g1' is listed twice"),
    ({"graphs": GRAPHS + ",ether\n"}, r"graphs\.csv, line 4, column 'id': the cell is empty"),
    ({"graphs": "id,label\ng1,\n7,b\n"}, r"line 2, column 'label': the graph has no label"),
    ({"graphs": "id,class,rating\ng1,a,1\n7,b,2\n"},
     r"graphs\.csv: several columns could be the label: 'class', 'rating'\. Rename the one"),
    ({"nodes": "graph\ng1\n7\n"}, r"nodes\.csv: no column is left for the node; the columns"),
    ({"edges": EDGES.partition("\n")[2]},
     r"edges\.csv, line 1: the first line has the graph 'g1'.*graph,source,target"),
    ({"nodes": NODES.replace("kind", "x").replace("C", "1").replace("g1,b,O", "g1,b,")},
     r"nodes\.csv, line 4, column 'x': '' is not a finite number, as most cells"),
    ({"nodes": NODES.replace("kind", "x").replace("C", "1").replace("O", "nan")},
     r"nodes\.csv, line 4, column 'x': 'nan' is not a finite number"),
])  # fmt: skip
def test_mistakes_are_named_by_file_line_and_column(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        read_graph_tables(write_tables(tmp_path, **changed))


def test_a_missing_or_doubtful_table_is_named(tmp_path):
    folder = write_tables(tmp_path)
    (folder / "nodes.tsv").write_text("")
    with pytest.raises(DataError, match=r"holds several: nodes\.csv, nodes\.tsv\. Remove all but"):
        read_graph_file(folder)
    (folder / "nodes.tsv").unlink()
    (folder / "graphs.csv").unlink()
    with pytest.raises(DataError, match=r"no table of graphs, such as graphs\.csv.*edges\.csv \("):
        read_graph_file(folder)
    with pytest.raises(DataError, match=r"expected \.jsonl.*or a folder\. Pass the folder of gr"):
        read_graph_file(folder / "edges.csv")


def test_a_column_of_parts_is_named_as_ignored(tmp_path):
    graphs, nodes = "graph,label,split\na,x,train\nb,y,test\n", "graph,node\na,1\nb,1\n"
    folder = write_tables(tmp_path, graphs, nodes, "graph,source,target\na,1,1\n")
    assert "Column 'split' is ignored" in " ".join(read_graph_tables(folder).notes)


# Reading of TU folders, and errors for invalid ones.


# a triangle and a path of two nodes, whose nodes are interleaved in the file
FILES = {
    "A": "1, 3\n3, 1\n3, 4\n4, 3\n1, 4\n4, 1\n2, 5\n5, 2\n", "graph_indicator": "1\n2\n1\n1\n2\n",
    "graph_labels": "1\n-1\n", "node_labels": "7\n8\n9\n7\n8\n",
    "edge_labels": "0\n0\n1\n1\n2\n2\n5\n5\n",
}  # fmt: skip


def write_tu(folder: Path, **changes: str | None) -> Path:
    for part, text in (FILES | changes).items():
        if text is not None:
            (folder / f"TOY_{part}.txt").write_text(text)
    return folder


def test_nodes_edges_and_labels_match_the_files(tmp_path: Path):
    triangle, path = read_tu(write_tu(tmp_path)).graphs
    assert (triangle.count, path.count) == (3, 2)
    assert triangle.nodes == (7, 9, 7)
    assert path.nodes == (8, 8)
    assert triangle.edge_index.tolist() == [[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]]
    assert triangle.edges == (0, 0, 1, 1, 2, 2)
    assert path.edge_index.tolist() == [[0, 1], [1, 0]]
    assert path.edges == (5, 5)
    assert (triangle.label, path.label, path.line) == ("1", "-1", 2)


def test_duplicate_edges_are_dropped_with_a_note(tmp_path: Path):
    edges = FILES["A"] + "5, 2\n"
    result = read_tu(write_tu(tmp_path, A=edges, edge_labels=FILES["edge_labels"] + "5\n"))
    assert result.graphs[1].edge_index.shape == (2, 2)
    assert result.notes == ("1 edges are listed twice and read once",)


def test_attributes_are_numbers_and_several_labels_are_joined(tmp_path: Path):
    values = "1.5, 2\n3, 4\n5, 6\n7, 8\n9, 1e1\n"
    folder = write_tu(tmp_path, node_attributes=values, edge_labels=None, node_labels="1,2\n" * 5)
    result = read_tu(folder)
    assert result.graphs[0].nodes == ("1,2",) * 3
    assert result.graphs[0].edges is None
    assert "--features attributes" in result.notes[0]
    numbers = read_tu(folder, features="attributes").graphs[1].nodes
    np.testing.assert_array_equal(np.asarray(numbers), [[3.0, 4.0], [9.0, 10.0]])


def test_graph_attributes_are_the_labels_of_a_regression(tmp_path: Path):
    folder = write_tu(tmp_path, graph_attributes="0.5\n-2\n")
    assert [graph.label for graph in read_tu(folder).graphs] == ["1", "-1"]
    assert [graph.label for graph in read_tu(folder, is_regression=True).graphs] == ["0.5", "-2"]
    (folder / "TOY_graph_labels.txt").unlink()
    assert read_tu(folder).graphs[1].label == "-2"


def test_graphs_without_edges_and_without_labels_are_read(tmp_path: Path):
    only = FILES["A"].removesuffix("2, 5\n5, 2\n")
    folder = write_tu(tmp_path, A=only, edge_labels="0\n" * 6, graph_labels=None)
    first, second = read_tu(folder, require_labels=False).graphs
    assert first.label is None
    assert second.edge_index.shape == (2, 0)
    assert second.edges is None


@pytest.mark.parametrize(("changes", "message"), [
    ({"A": "1, 3\n3, 9\n"}, r"TOY_A\.txt, line 2.*no node 9"),
    ({"A": "1, 3\n0, 1\n"}, r"TOY_A\.txt, line 2.*no node 0"),
    ({"A": "1, 2\n"}, r"TOY_A\.txt, line 1.*graph 1 and a node of graph 2"),
    ({"A": "1, 3, 4\n"}, r"TOY_A\.txt, line 1.*3 numbers; expected 2"),
    ({"A": "1, x\n"}, r"TOY_A\.txt, line 1.*'x' is not a finite number"),
    ({"A": "1, 3.5\n"}, r"TOY_A\.txt, line 1.*3\.5 is not an integer"),
    ({"A": "1, 1_0\n"}, r"TOY_A\.txt, line 1.*'1_0' is not a finite number"),
    ({"graph_indicator": "1\n3\n1\n1\n2\n"}, r"graph_indicator\.txt, line 2.*no graph 3"),
    ({"graph_labels": "1\n2\n3\n"}, r"graph_indicator\.txt.*graph 3 has no nodes"),
    ({"graph_labels": "1\nx\n"}, r"graph_labels\.txt, line 2.*'x' is not one number"),
    ({"graph_labels": None}, "neither TOY_graph_labels.txt nor TOY_graph_attributes.txt"),
    ({"node_labels": "1\n2\n"}, r"node_labels\.txt.*2 lines for 5 nodes"),
    ({"edge_labels": "1\n2\n"}, r"edge_labels\.txt.*2 lines for 8 edges"),
    ({"node_labels": "1\n2\nnan\n4\n5\n"}, r"node_labels\.txt, line 3.*'nan'"),
    ({"A": None}, "has no file NAME_A.txt"),
    ({"graph_indicator": None}, r"graph_indicator\.txt.*no such file"),
    ({"A": "\n"}, r"TOY_A\.txt.*contains no numbers"),
])  # fmt: skip
def test_errors_for_invalid_files_name_the_location(tmp_path: Path, changes, message: str):
    with pytest.raises(DataError, match=message):
        read_tu(write_tu(tmp_path, **changes))


def test_a_folder_with_two_data_sets_is_rejected(tmp_path: Path):
    (write_tu(tmp_path) / "OTHER_A.txt").write_text("1, 2\n")
    with pytest.raises(DataError, match=r"several data sets: OTHER_A\.txt, TOY_A\.txt"):
        read_tu(tmp_path)


@pytest.mark.parametrize("number", [3, 10**8, 10**15])
def test_a_graph_number_that_leaves_graphs_without_nodes_allocates_nothing(tmp_path, number):
    (tmp_path / "T_A.txt").write_text("1, 2\n2, 1\n")
    (tmp_path / "T_graph_indicator.txt").write_text(f"1\n1\n{number}\n")
    with pytest.raises(DataError, match=r"graph_indicator\.txt: graph 2 has no nodes"):
        read_tu(tmp_path, require_labels=False)


@pytest.mark.parametrize("place", ["raw", "MUTAG/raw"])
def test_the_folder_that_pyg_downloads_to_is_found(tmp_path: Path, place: str):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    assert len(read_tu(write_tu(folder).parents[place.count("/")]).graphs) == len(
        read_tu(folder).graphs
    )


def test_a_file_that_divides_the_graphs_is_named_as_ignored(tmp_path: Path):
    folder = write_tu(tmp_path)
    assert not read_tu(folder).notes
    (folder / "TOY_graph_split.txt").write_text("train\ntest\n")
    assert read_tu(folder).notes[0].startswith("TOY_graph_split.txt is ignored, and the split is")
