"""The parts of a text: found by their names, or cut."""

from __future__ import annotations

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
