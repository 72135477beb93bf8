"""Files to numbered text: parts named, found or cut; what cannot be used says why."""

from __future__ import annotations

import numpy as np
import pytest

from language_samples import made_up_text, small_config
from representer.data.language import PARTS, digests_of
from representer.errors import ArgumentError, DataError
from representer.tasks.language import FLOW


def read(config):
    return FLOW.prepare(config)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(made_up_text(), encoding="utf-8")
    return path


def test_one_file_is_cut_into_three(text):
    data = read(small_config(data=str(text)))
    report = data.described()["parts"]
    assert [report[part]["lines"] for part in ("train", "valid", "test")] == [48, 6, 6]
    assert sum(part["tokens"] for part in report.values()) == 60 * 8
    assert data.described()["vocabulary"] == 6


def test_a_folder_is_read_by_the_names_in_it(tmp_path):
    for seed, name in enumerate(("train", "valid", "test")):
        (tmp_path / f"x.{name}.txt").write_text(made_up_text(20, seed))
    data = read(small_config(data=str(tmp_path)))
    assert len(data.parts["train"]) == 160
    assert len(set(data.splits()["sha256"].values())) == 3


def test_parts_of_their_own_are_taken_whole(text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("a b zzz\n")
    data = read(small_config(data=str(text), valid=str(other), test=str(other)))
    assert len(data.parts["train"]) == 480
    assert data.parts["valid"].tolist()[2] == data.inputs.vocabulary.UNKNOWN
    data = read(small_config(data=str(text), test=str(other)))
    assert [len(data.parts[part]) for part in ("train", "valid", "test")] == [432, 48, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty \\(0 bytes\\)"),
        (b"one line only", "1 lines cannot be split into 3 parts"),
        (b"\n \n\n\t\n\n\n", "no token occurs 1 times"),
        (b"a\nb\nc\nd\n", "the training text has 4 token.s.; more than 8 are needed"),
        (b"\x7fELF\x02\x01\x00\x00\x00", "NUL byte"),
        (b"\xff\xfe\xfa\n\n\n", "is in UTF-16|is not utf-8"),
        (b"caf\xe9\nb\nc\n", "byte 0xe9 at offset 3 is not utf-8"),
    ],
)
def test_the_error_for_an_invalid_text_names_the_file_and_the_reason(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read(small_config(data=str(path)))
    assert "bad.txt" in str(caught.value)


def test_no_data_are_an_error_with_the_demo_as_fix():
    with pytest.raises(ArgumentError, match=r"data is None.*representer fit language --demo"):
        read(small_config())


def test_the_demo_needs_no_file():
    data = read(small_config(demo=True, min_count=2))
    assert len(data.parts["train"]) > 50_000
    assert "help topics" in data.described()["source"]


def test_equal_lines_stay_together_and_are_counted(tmp_path, capsys):
    lines = [f"line {n}" for n in range(18)]
    path = tmp_path / "copies.txt"
    path.write_text("\n".join([*lines, "LINE  3", "new", ""]) + "\n")
    data = read(small_config(data=str(path), test_fraction=0.15))
    assert "1 of 21 lines equal others, and stay with them in a split" in capsys.readouterr().err
    assert [data.described()["parts"][part]["lines"] for part in PARTS] == [16, 2, 3]
    read(small_config(data=str(path), test=str(path)))
    assert "20 lines of the test file are training lines, too" in capsys.readouterr().err
    trained = np.frombuffer(bytes.fromhex(data.splits()["trained_on"]), np.int64)
    assert np.isin(digests_of(["line 16\n", "new\n", "\n"]), trained).tolist() == [True, False]
