"""Preparing data: who is in which part, which words are known, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from representer.errors import ArgumentError, DataError
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_data import prepare


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    lines = (json.dumps({"text": text, "label": label}) for text, label in rows)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def data(tmp_path) -> str:
    rows = [(f"word{i} wave tide", "sea") if i % 2 else (f"word{i} moon", "sky") for i in range(40)]
    return write(tmp_path / "data.jsonl", rows)


def test_the_parts_are_disjoint_and_together_the_whole(data):
    prepared = prepare(TextConfig(data=data, test_fraction=0.2))
    lines = [
        line for part in (prepared.train, prepared.valid, prepared.test) for line in part.lines
    ]
    assert sorted(lines) == list(range(1, 41))
    assert (len(prepared.valid), len(prepared.test)) == (4, 8)


def test_texts_labels_and_lines_belong_together(data):
    prepared = prepare(TextConfig(data=data))
    source = [json.loads(line) for line in Path(data).read_text().splitlines()]
    for part in (prepared.train, prepared.valid, prepared.test):
        for text, label, line, tokens in zip(
            part.texts, part.labels, part.lines, part.tokens, strict=True
        ):
            assert source[line - 1] == {"text": text, "label": prepared.classes.names[label]}
            assert tokens == text.split()


def test_the_seed_decides_the_split(data):
    splits = [prepare(TextConfig(data=data, seed=seed)).test.lines for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]


def test_the_vocabulary_is_the_training_parts_with_the_least_count(data):
    prepared = prepare(TextConfig(data=data, min_count=2))
    assert set(prepared.vocabulary.words[2:]) == {"wave", "tide", "moon"}
    assert prepared.report["unknown_share"] > 0  # every document has a word of its own


def test_files_of_their_own_are_whole_parts(data, tmp_path):
    valid = write(tmp_path / "valid.jsonl", [("moon", "sky")])
    test = write(tmp_path / "test.jsonl", [("wave", "sea"), ("moon", "sky")])
    prepared = prepare(TextConfig(data=data, valid=valid, test=test))
    assert (len(prepared.train), len(prepared.valid), len(prepared.test)) == (40, 1, 2)
    assert set(prepared.digests) == {data, valid, test}
    assert prepared.test.source == test


def test_a_class_that_only_the_test_file_has_is_refused(data, tmp_path):
    test = write(tmp_path / "test.jsonl", [("wave", "lake")])
    with pytest.raises(DataError, match=r"test\.jsonl, line 1, column 'label': the label 'lake'"):
        prepare(TextConfig(data=data, test=test))


def test_long_texts_are_cut_and_counted(data):
    prepared = prepare(TextConfig(data=data, max_length=2, min_count=1))
    assert max(len(t) for t in prepared.train.tokens) == 2
    assert prepared.report["truncated"] == 20
    assert prepared.report["longest"] == 3


def test_short_texts_are_left_out_and_counted(data):
    prepared = prepare(TextConfig(data=write_more(data), min_length=2))
    (source,) = prepared.report["sources"]
    assert source["dropped"] == [{"reason": "too short", "count": 1, "lines": [41]}]
    assert source["kept"] == 40


def write_more(data: str) -> str:
    with Path(data).open("a") as file:
        file.write(json.dumps({"text": "moon", "label": "sky"}) + "\n")
    return data


def test_one_class_is_not_enough(tmp_path):
    with pytest.raises(DataError, match="at least two classes"):
        prepare(TextConfig(data=write(tmp_path / "a.jsonl", [("a", "x"), ("b", "x")])))


def test_no_data_is_refused_with_the_way_out():
    with pytest.raises(ArgumentError, match="--demo"):
        prepare(TextConfig())


def test_the_split_is_found_again_from_the_written_lines(data):
    prepared = prepare(TextConfig(data=data))
    written = json.loads(json.dumps(prepared.splits()))
    assert written["train"] == {"file": data, "lines": prepared.train.lines}
    assert written["sha256"] == prepared.digests
