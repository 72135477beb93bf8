from __future__ import annotations

import lzma

import pytest

from representer.data.tables import Dropped
from representer.data.text import read_labeled_lines
from representer.errors import DataError


def test_the_first_space_separates_label_and_text(tmp_path):
    path = tmp_path / "train"
    path.write_text("4 a stirring , funny film\n0  dull \n1 no-break\xa0space\n")
    table = read_labeled_lines(path, ["0", "1", "4"])
    assert table.texts == ["a stirring , funny film", "dull", "no-break\xa0space"]
    assert (table.labels, table.lines) == (["4", "0", "1"], [1, 2, 3])
    assert (table.source, table.dropped) == (str(path), [])


def test_any_label_is_allowed_by_default(tmp_path):
    path = tmp_path / "train"
    path.write_text("good film\nbad film\n")
    assert read_labeled_lines(path).labels == ["good", "bad"]


def test_lines_without_a_text_are_dropped_and_listed(tmp_path):
    path = tmp_path / "train"
    path.write_text("1 film\n\n  \n0\n0 \n1 again\n")
    table = read_labeled_lines(path, ["0", "1"])
    assert (table.texts, table.lines) == (["film", "again"], [1, 6])
    assert table.dropped == [
        Dropped(2, "empty line"), Dropped(3, "empty line"), Dropped(4, "empty text"),
        Dropped(5, "empty text"),
    ]  # fmt: skip


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "train.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("1 film\n")
    assert read_labeled_lines(path).texts == ["film"]


def test_a_line_without_a_known_label_is_rejected(tmp_path):
    path = tmp_path / "train"
    path.write_text("1 film\nthe rock\n")
    with pytest.raises(DataError, match=r"train, line 2: starts with 'the' .* labels '0', '1'\. "):
        read_labeled_lines(path, ["0", "1"])
    path.write_text("1 film\n0film\n")
    with pytest.raises(DataError, match="line 2: starts with '0film'"):
        read_labeled_lines(path, ["0", "1"])


@pytest.mark.parametrize("content", ["\n\n", "0\n1\n"])
def test_a_file_without_any_text_is_rejected(tmp_path, content):
    path = tmp_path / "train"
    path.write_text(content)
    with pytest.raises(DataError, match="has no line with a label and a text"):
        read_labeled_lines(path)


def test_a_file_that_is_no_text_is_rejected_with_the_line(tmp_path):
    path = tmp_path / "train"
    path.write_bytes(b"1 film\n0 caf\xe9\n")
    with pytest.raises(DataError, match="train, line 2: byte 0xe9"):
        read_labeled_lines(path)
