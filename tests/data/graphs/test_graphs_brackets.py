"""Reading of bracketed trees, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from representer.cli.main import task_of_data
from representer.data.graphs import read_bracketed_trees, read_graph_file, tree_record
from representer.data.graphs.reading import is_bracketed
from representer.errors import ArgumentError, DataError

LINE = "(3 (2 It) (4 (3 works) (2 (2 well) (2 .))))"


def write(folder: Path, text: str, name: str = "trees.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_words_are_nodes_and_the_label_of_the_root_is_the_class(tmp_path):
    read = read_graph_file(write(tmp_path, f"{LINE}\n\n(0 Bad)\n"))
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
    assert task_of_data(write(tmp_path, LINE)) == "graph"
    assert not is_bracketed(write(tmp_path, "(He) said it.\nfoo", "a.txt"))
    assert not is_bracketed(write(tmp_path, '{"nodes": ["(a)"]}', "a.jsonl"))
    assert not is_bracketed(tmp_path / "missing.txt")


@pytest.mark.parametrize(("line", "problem"), [
    ("(3 (2 It)", "is not one tree"), ("(3 It) (2 was)", "is not one tree"), ("word", "no label"),
    ("((2 It) (3 works))", "no label"),
])  # fmt: skip
def test_the_message_names_the_line_and_an_example(tmp_path, line, problem):
    path = write(tmp_path, f"{LINE}\n{line}\n")
    with pytest.raises(DataError, match=rf"line 2.*{problem}.*\(3 \(2 It\)|:2.*{problem}"):
        read_bracketed_trees(path)


def test_labels_are_not_required_for_predictions(tmp_path):
    path = write(tmp_path, "((2 It) (3 works))")
    (tree,) = read_bracketed_trees(path, require_labels=False).graphs
    assert tree.nodes == ("()", "It", "works")
    assert tree.label is None


def test_one_tree_is_read_without_a_file():
    assert tree_record(LINE).label == "3"
    with pytest.raises(ArgumentError, match="one tree"):
        tree_record("(3 It")
