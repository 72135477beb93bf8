"""The reader of graphs in text format: values, and errors with their line."""

from __future__ import annotations

import lzma

import pytest

from representer.errors import DataError
from representer_papers.string_graph2017.graph_sets import read_folds, read_graphs

TWO = "2\n3 0\n5 1 1\n6 2 0 2\n5 1 1\n1 2\n7 0\n"


def written(tmp_path, text, name="A.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_nodes_edges_and_labels_are_read(tmp_path):
    (tags, edges, label), (tag, no_edges, second) = read_graphs(written(tmp_path, TWO))
    assert tags.tolist() == [5, 6, 5]
    assert edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert (label, second) == (0, 2)
    assert tag.tolist() == [7]
    assert no_edges.shape == (2, 0)


def test_a_compressed_file_gives_the_same_graphs(tmp_path):
    with lzma.open(tmp_path / "A.txt.xz", "wt", encoding="utf-8") as file:
        file.write(TWO.replace("\n", "\r\n"))
    plain, packed = (read_graphs(p) for p in (written(tmp_path, TWO), tmp_path / "A.txt.xz"))
    for first, second in zip(plain, packed, strict=True):
        assert first[1].tolist() == second[1].tolist()


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x\n", 1, "'x' is not a list of integers"),
        ("0\n", 1, "the number of graphs is 0"),
        ("1 1\n", 1, "expected the number of graphs, found 2 numbers"),
        ("1\n0 1\n", 2, "graph 1 has 0 nodes"),
        ("1\n1 0 0\n", 2, "expected the number of nodes and the label of graph 1"),
        ("1\n1 0\n5\n", 3, "expected the tag and the neighbors of node 0 of 1, found 1 numbers"),
        ("1\n2 0\n5 2 1\n5 1 0\n", 3, "2 neighbors are announced, but 1 given"),
        ("1\n2 0\n5 1 2\n5 1 0\n", 3, r"neighbor 2 is not one of the nodes 0 … 1"),
        ("1\n2 0\n5 1 -1\n5 1 0\n", 3, "neighbor -1 is not one"),
        ("1\n2 0\n5 0\n5 1 0\n", 4, "node 1 lists neighbor 0, but not the other way round"),
        (TWO + "1 0\n", 8, "the file goes on after the 2 graphs"),
        (TWO.replace("6 2", "6 2.5"), 4, "'6 2.5 0 2' is not a list of integers"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(tmp_path, text, line, message):
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=rf"A.txt, line {line}: {message}"):
        list(read_graphs(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n1 0\n1 0\n", "the file ends before the number of nodes and the label of graph 2 of 3"),
        ("1\n3 0\n1 0\n", "the file ends before the tag and the neighbors of node 1 of 3"),
    ],
)
def test_the_error_for_a_truncated_file_names_the_missing_part(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        list(read_graphs(written(tmp_path, text)))


def test_a_graph_may_have_no_test_fold(tmp_path):
    assert read_folds(written(tmp_path, "2\n\n10\n"), 3).tolist() == [2, 0, 10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "line 2: the file has 2 lines for 3 graphs"),
        ("1\n2\n3\n4\n", "line 4: the file has 4 lines for 3 graphs"),
        ("1\n0\n3\n", "line 2: the fold is '0', not a positive integer"),
        ("1\ntwo\n3\n", "line 2: the fold is 'two'"),
    ],
)
def test_invalid_folds_are_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_folds(written(tmp_path, text, "fold.txt"), 3)
