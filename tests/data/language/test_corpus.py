"""The parts of a text: found by their names, or cut."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data.language import cut, find_parts
from representer.errors import DataError


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
        ("wiki.train.tokens", "wiki.dev.tokens", "wiki.test.tokens"),
        ("train", "val", "test"),
        ("my_train.txt", "my-valid.txt", "TEST.txt"),
    ],
)
def test_parts_are_found_by_their_names(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("a\n")
    (tmp_path / "README.md").write_text("train valid test")
    (tmp_path / "training_notes.txt").write_text("no part")
    found = find_parts(tmp_path)
    assert [found[part].name for part in ("train", "valid", "test")] == list(names)


def test_missing_and_ambiguous_parts_are_rejected(tmp_path):
    write(tmp_path, a__train__txt="a", b__train__txt="a", a__test__txt="a")
    with pytest.raises(DataError, match=r"one file of the train part; found a.train.txt, b.train"):
        find_parts(tmp_path)
    (tmp_path / "b.train.txt").unlink()
    with pytest.raises(DataError, match=r"valid part; found none. Name the files: .* --valid"):
        find_parts(tmp_path)


def test_a_text_is_split_at_lines_in_order():
    lines = [str(i) for i in range(20)]
    assert cut(lines, (0.7, 0.1, 0.2)) == [[*range(14)], [14, 15], [16, 17, 18, 19]]
    assert cut(lines, (0.8, 0.2)) == [[*range(16)], [16, 17, 18, 19]]
    assert cut(lines, (1.0,)) == [[*range(20)]]


def test_a_text_of_two_lines_cannot_be_split():
    with pytest.raises(DataError, match="2 lines cannot be split into 3 parts"):
        cut(["a", "b"], (0.8, 0.1, 0.1))
    assert cut(["a", "b", "c"], (0.8, 0.1, 0.1)) == [[0], [1], [2]]


def test_copies_of_a_line_are_in_one_part_whatever_its_case_and_spaces():
    lines = ["a b", "", "c", "A  b", "d", "e", "c", "f", "", "a b"]
    assert cut(lines, (0.6, 0.2, 0.2)) == [[0, 1, 2, 3, 6, 9], [4, 5], [7, 8]]
    shuffled = [str(i % 60) for i in np.random.default_rng(0).permutation(600)]
    parts = [{shuffled[row] for row in part} for part in cut(shuffled, (0.8, 0.1, 0.1))]
    assert [len(part) for part in parts] == [48, 6, 6]
    assert len(set.union(*parts)) == 60


def test_of_few_different_lines_every_part_has_one_and_of_fewer_copies_are_parted(capsys):
    assert cut(["a"] * 8 + ["b", "c"], (0.4, 0.3, 0.3)) == [[*range(8)], [8], [9]]
    assert cut(["a", "b"] + ["c"] * 8, (0.8, 0.1, 0.1)) == [[0], [1], [*range(2, 10)]]
    assert not capsys.readouterr().err
    assert cut(["a", "b"] * 5, (0.8, 0.1, 0.1)) == [[*range(8)], [8], [9]]
    assert "so few objects differ" in capsys.readouterr().err
