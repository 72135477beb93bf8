"""Graphs from tables of graphs, nodes and edges: their columns, and errors that name the cell."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from representer.data.graphs import read_graph_file, read_graph_tables, read_jsonl_graphs
from representer.errors import DataError

GRAPHS = "id,label\ng1,ether\n7,aldehyde\n"
NODES = "graph,node,kind\ng1,a,C\n7,1,C\ng1,b,O\ng1,c,C\n7,0,O\n"
EDGES = "graph,source,target,bond\ng1,a,b,single\n7,0,1,double\ng1,c,b,single\n"


def write(folder: Path, graphs: str = GRAPHS, nodes: str = NODES, edges: str = EDGES) -> Path:
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
    read = read_graph_file(write(tmp_path))
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
    read = read_graph_tables(write(tmp_path, "name,value\ng1,0.25\n7,1\n", nodes, edges))
    first, second = read.graphs
    assert np.asarray(first.nodes).tolist() == [[0, 0.5], [1, 1000]]
    assert np.asarray(second.nodes).tolist() == [[2, -1], [3, 0.5]]
    assert first.edges is None
    assert (first.label, second.label) == ("0.25", "1")
    assert "nodes.csv: graph 'mol', node 'atom', numbers 'x', 'y'" in read.notes[0]
    assert "edges.csv: graph 'mol', source 'begin', target 'end'" in read.notes[0]


def test_texts_and_numbers_are_chosen_between_by_the_option_of_tu_folders(tmp_path):
    nodes = "graph,id,element,label,x\ng1,a,C,1,0\ng1,b,O,2,1\ng1,c,C,1,2\n7,0,C,1,3\n7,1,C,1,4\n"
    folder = write(tmp_path, nodes=nodes)
    read = read_graph_tables(folder)
    assert read.graphs[0].nodes == ("C,1", "O,2", "C,1")  # integers named label are labels
    assert "labels 'element', 'label', unused, see --features, 'x'" in read.notes[0]
    numbers = read_graph_file(folder, features="attributes").graphs
    assert np.asarray(numbers[0].nodes).tolist() == [[0], [1], [2]]
    assert numbers[0].edges is None  # the edges have no numbers


def test_an_edge_in_both_directions_counts_once_and_graphs_without_edges_have_none(tmp_path):
    edges = "graph,from,to\ng1,a,b\ng1,b,a\ng1,c,c\n"
    read = read_graph_tables(write(tmp_path, edges=edges))
    assert [one.edge_index.tolist() for one in read.graphs] == [[[0, 2, 1], [1, 2, 0]], [[], []]]
    assert read.notes[1] == "1 edge is listed twice; edges are undirected, so each counts once."


def test_labels_are_optional_if_not_required(tmp_path):
    folder = write(tmp_path, graphs="graph,size\ng1,3\n7,2\n")
    assert [g.label for g in read_graph_tables(folder, require_labels=False).graphs] == [None] * 2
    assert [g.label for g in read_graph_tables(folder).graphs] == ["3", "2"]  # by position
    write(folder, graphs="graph\ng1\n7\n")
    with pytest.raises(DataError, match=r"graphs\.csv: no column is left for the label.*'graph'"):
        read_graph_tables(folder)


def test_the_tables_may_have_other_formats(tmp_path):
    read = read_graph_tables(write(tmp_path)).graphs
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
        read_graph_tables(write(tmp_path, **changed))


def test_a_missing_or_doubtful_table_is_named(tmp_path):
    folder = write(tmp_path)
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
    folder = write(tmp_path, "graph,label,split\na,x,train\nb,y,test\n", "graph,node\na,1\nb,1\n",
                   "graph,source,target\na,1,1\n")  # fmt: skip
    assert "Column 'split' is ignored" in " ".join(read_graph_tables(folder).notes)
