from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from representer.data.tables.columns import MISSING
from representer.data.tables.reading import read_jsonl
from representer.errors import DataError


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.jsonl"


def test_the_keys_of_the_first_object_are_the_columns(path):
    path.write_text(
        '{"text": "a", "n": 1}\n\n{"n": null, "x": 2, "text": "b\\nc"}\n{"text": "d"}\n'
    )
    grid = next(read_jsonl(path))
    assert grid.columns == ["text", "n"]
    assert grid.rows == [["a", 1], ["b\nc", None], ["d", MISSING]]
    assert grid.lines == [1, 3, 4]
    assert [(row.line, row.reason) for row in grid.dropped] == [(2, "blank line")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "a JSON array, not an object"),
        ('"text"', "a JSON string, not an object"),
        ("17", "a JSON number, not an object"),
        ("null", "a JSON value, not an object"),
        ("{'text': 'a'}", "not JSON: .* at character 2"),
        ('{"text": "a"} {"text": "b"}', "not JSON: Extra data at character 15"),
        ('{"text": "a", "text": "b"}', "the key 'text' occurs twice"),
        ('{"text": NaN}', "NaN is not a JSON value"),
        ("[" * 100_000, "nested more than 64 levels"),
        ('{"n": ' + "1" * 5000 + "}", "not JSON"),
    ],
)
def test_invalid_lines_are_rejected_with_their_number(path, line, message):
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{message}"):
        next(read_jsonl(path))


@pytest.mark.parametrize("content", ["\n\n", "{}\n{}\n"])
def test_a_file_without_keys_is_rejected(path, content):
    path.write_text(content)
    with pytest.raises(DataError, match="no objects with keys"):
        next(read_jsonl(path))


def test_repeated_keys_are_found_in_linear_time(path):
    """The first of 40,000 keys, of which the last occurs twice, took 10 seconds."""
    keys = [*range(40_000), 39_999]
    path.write_text("{" + ", ".join(f'"{key}": 1' for key in keys) + "}\n")
    start = time.process_time()
    with pytest.raises(DataError, match="the key '39999' occurs twice"):
        next(read_jsonl(path))
    assert time.process_time() - start < 1


def test_many_lists_beside_each_other_are_not_nested(path):
    path.write_text('{"nodes": ' + str([[1.5]] * 1000) + "}\n")
    assert next(read_jsonl(path)).rows == [[[[1.5]] * 1000]]


def test_many_keys_that_later_objects_lack_are_refused_before_they_fill_the_memory(path):
    first = json.dumps({f"k{k}": 1 for k in range(3000)})
    path.write_text(f"{first}\n" + "{}\n" * 600)
    assert len(next(read_jsonl(path)).rows) == 601
    path.write_text(f"{first}\n" + "{}\n" * 700)
    with pytest.raises(DataError, match="so nearly all are empty"):
        list(read_jsonl(path))
