"""The reader of the treebank: files, parts, errors with their location."""

from __future__ import annotations

import pytest

from representer.errors import ArgumentError, DataError
from representer_papers.string_graph2017.sentiment import DATASETS, locate_treebank, read_treebank


def test_all_data_sets_are_found_with_their_parts(treebank):
    fine, binary, fine_roots, binary_roots = locate_treebank(treebank, [])
    assert [place.dataset.name for place in (fine, binary, fine_roots, binary_roots)] == [*DATASETS]
    assert fine.train.name == "stsa.fine.phrases.train"
    assert fine_roots.train.name == "stsa.fine.train"
    assert (fine.valid.name, fine.test.name) == ("stsa.fine.dev", "stsa.fine.test.xz")
    assert (binary.dataset.task, binary_roots.dataset.task) == ("binary", "binary")
    assert locate_treebank(treebank / "sst", ["fine"])[0].train == fine.train


def test_training_uses_phrases_and_evaluation_sentences(treebank):
    data = read_treebank(locate_treebank(treebank, ["fine"])[0])
    assert [len(data.parts[name]) for name in ("train", "valid", "test")] == [41, 11, 11]
    assert data.inputs.words(data.parts["train"].objects[1]) == ["weak", "film", ","]
    assert data.values["train"][:6].tolist() == [0, 1, 2, 3, 4, 0]
    assert "unseen" in data.inputs.vocabulary  # a word of the test part, which may have a vector
    assert len(read_treebank(locate_treebank(treebank, ["fine-roots"])[0]).parts["train"]) == 21


def test_a_missing_file_is_named(treebank):
    (treebank / "sst/stsa.fine.dev").unlink()
    assert [p.dataset.name for p in locate_treebank(treebank, [])] == ["binary", "binary-roots"]
    with pytest.raises(DataError, match=r"there is no stsa\.fine\.dev, nor sst/stsa\.fine\.dev"):
        locate_treebank(treebank, ["fine"])
    with pytest.raises(ArgumentError, match="datasets is 'five'"):
        locate_treebank(treebank, ["five"])
    with pytest.raises(DataError, match="REPRESENTER_DATA"):
        locate_treebank(treebank / "nowhere", [])


def test_a_label_of_another_task_is_refused_with_file_and_line(treebank):
    path = treebank / "sst/stsa.binary.dev"
    path.write_text("0 dull\n3 good film\n")
    with pytest.raises(DataError, match=r"stsa\.binary\.dev, line 2: starts with '3'"):
        read_treebank(locate_treebank(treebank, ["binary"])[0])
