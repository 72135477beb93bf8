"""Reading of TU folders, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from representer.data.graphs import read_tu
from representer.errors import DataError

# a triangle and a path of two nodes, whose nodes are interleaved in the file
FILES = {
    "A": "1, 3\n3, 1\n3, 4\n4, 3\n1, 4\n4, 1\n2, 5\n5, 2\n", "graph_indicator": "1\n2\n1\n1\n2\n",
    "graph_labels": "1\n-1\n", "node_labels": "7\n8\n9\n7\n8\n",
    "edge_labels": "0\n0\n1\n1\n2\n2\n5\n5\n",
}  # fmt: skip


def write(folder: Path, **changes: str | None) -> Path:
    for part, text in (FILES | changes).items():
        if text is not None:
            (folder / f"TOY_{part}.txt").write_text(text)
    return folder


def test_nodes_edges_and_labels_match_the_files(tmp_path: Path):
    triangle, path = read_tu(write(tmp_path)).graphs
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
    result = read_tu(write(tmp_path, A=edges, edge_labels=FILES["edge_labels"] + "5\n"))
    assert result.graphs[1].edge_index.shape == (2, 2)
    assert result.notes == ("1 edges are listed twice and read once",)


def test_attributes_are_numbers_and_several_labels_are_joined(tmp_path: Path):
    values = "1.5, 2\n3, 4\n5, 6\n7, 8\n9, 1e1\n"
    folder = write(tmp_path, node_attributes=values, edge_labels=None, node_labels="1,2\n" * 5)
    result = read_tu(folder)
    assert result.graphs[0].nodes == ("1,2",) * 3
    assert result.graphs[0].edges is None
    assert "--features attributes" in result.notes[0]
    numbers = read_tu(folder, features="attributes").graphs[1].nodes
    np.testing.assert_array_equal(np.asarray(numbers), [[3.0, 4.0], [9.0, 10.0]])


def test_graph_attributes_are_the_labels_of_a_regression(tmp_path: Path):
    folder = write(tmp_path, graph_attributes="0.5\n-2\n")
    assert [graph.label for graph in read_tu(folder).graphs] == ["1", "-1"]
    assert [graph.label for graph in read_tu(folder, is_regression=True).graphs] == ["0.5", "-2"]
    (folder / "TOY_graph_labels.txt").unlink()
    assert read_tu(folder).graphs[1].label == "-2"


def test_graphs_without_edges_and_without_labels_are_read(tmp_path: Path):
    only = FILES["A"].removesuffix("2, 5\n5, 2\n")
    folder = write(tmp_path, A=only, edge_labels="0\n" * 6, graph_labels=None)
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
        read_tu(write(tmp_path, **changes))


def test_a_folder_with_two_data_sets_is_rejected(tmp_path: Path):
    (write(tmp_path) / "OTHER_A.txt").write_text("1, 2\n")
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
    assert len(read_tu(write(folder).parents[place.count("/")]).graphs) == len(
        read_tu(folder).graphs
    )


def test_a_file_that_divides_the_graphs_is_named_as_ignored(tmp_path: Path):
    folder = write(tmp_path)
    assert not read_tu(folder).notes
    (folder / "TOY_graph_split.txt").write_text("train\ntest\n")
    assert read_tu(folder).notes[0].startswith("TOY_graph_split.txt is ignored, and the split is")
