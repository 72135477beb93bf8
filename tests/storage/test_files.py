"""Reading files that a stranger may have written."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from representer.errors import DataError
from representer.storage.files import MAX_YAML, parse_json, parse_yaml, read_bytes, require_shallow


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert read_bytes(tmp_path / "a", 3) == b"abc"


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(2**40)  # a sparse file: a terabyte that takes no room
    with pytest.raises(OSError, match=r"1,099,511,627,776 bytes; at most 1,000 are read"):
        read_bytes(tmp_path / "a", 1000)


@pytest.mark.parametrize("kind", ["link", "pipe", "socket", "folder", "device", "missing"])
def test_what_is_not_a_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = Path("a") if kind != "device" else Path("/dev/zero")
    match kind:
        case "link":
            Path("target").write_text("x")
            path.symlink_to("target")
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind("a")
        case "folder":
            path.mkdir()
    with pytest.raises(OSError, match=r"symbolic link|not a regular file|No such file"):
        read_bytes(path, 1000)


def test_json_is_parsed() -> None:
    assert parse_json('{"λ": [1, 2.5, null, true, "[[["]}'.encode()) == {
        "λ": [1, 2.5, None, True, "[[["]
    }


@pytest.mark.parametrize("limit", [1_000, 200_000])
def test_the_depth_of_json_is_bounded_whatever_the_recursion_limit(limit: int) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        assert parse_json(b"[" * 64 + b"]" * 64, max_depth=64)
        assert len(parse_json(b"[" + b"[[1]]," * 1000 + b"1]", max_depth=3)) == 1001
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            text = opening * 65 + b"1" + closing * 65
            with pytest.raises(ValueError, match="nested more than 64 levels"):
                parse_json(text, max_depth=64)
        with pytest.raises(ValueError, match="nested more than 64 levels"):
            parse_json(b'["\\\\", "]", "\\"]", ' + b"[" * 100_000, max_depth=64)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"[1", b"NaN", b"[-Infinity]", b"9" * 10_000, b"\xef\xbb\xbf{}"]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(data)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ('[["[[[", "\\\\"], "]]]"]', 2), ('["\\"[[[", [1]]', 2), ('["a\\\\\\"[[[\\\\", [[1]]]', 3),
        ('{"[": {"{": ["}"]}}', 3), ('["never closed [[[[', 1),
    ],
)  # fmt: skip
def test_brackets_in_strings_do_not_count_as_nesting(text: str, depth: int) -> None:
    text += " " + "[]" * 64  # of few brackets the depth is not computed
    for data in (text, text.encode()):
        require_shallow(data, max(1, depth))
        with pytest.raises(ValueError, match=f"nested more than {depth - 1} levels"):
            require_shallow(data, depth - 1)


def test_depth_is_computed_across_the_pieces_of_a_long_text(monkeypatch) -> None:
    monkeypatch.setattr("representer.storage.files._CHUNK", 3)
    text = '["[[[[", [[1, "]]"], {"a": [1]}]]' + "[]" * 64
    require_shallow(text, 4)
    with pytest.raises(ValueError, match="nested more than 3 levels"):
        require_shallow(text, 3)


@pytest.mark.parametrize("unit", [b'\\"', b'"', b"\\", b"a", b'"",', b"[]"])
def test_the_depth_of_any_text_is_computed_in_linear_time_and_memory(unit: bytes) -> None:
    """An unfinished string of 40 kB took 27 seconds, and any string 118 bytes a character."""
    data = b"[" * 64 + b'"' + unit * (2**22 // len(unit))
    tracemalloc.start()
    try:
        start = time.process_time()
        with contextlib.suppress(ValueError):
            require_shallow(data)
        seconds = time.process_time() - start
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    finally:
        tracemalloc.stop()
    assert seconds < 3


def test_yaml_is_parsed_with_the_texts_of_its_values() -> None:
    value, written = parse_yaml("a: 1_0\nb: [1, {c: '<<'}]\n")
    assert value == {"a": 10, "b": [1, {"c": "<<"}]}
    assert written["a"] == "1_0"
    assert parse_yaml("") == (None, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested more than 64 levels"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested more than 64 levels"),
        ("a: &a [1]\nb: [*a, *a]\n", "it has an alias"), ("a: {<<: {b: 1}}", "it has a merge key"),
        ("a: {!!merge b: {c: 1}}", "it has a merge key"),
        ("a: [", "line 1: expected the node content"),
        ("a: 1\nb: @", "line 2: found character '@'"),
        ("a: 1\n---\nb: 2", "line 2: but found another document"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: \x80", "not YAML"), ("a: !!float 1" + ":30" * 400, "a value is not of its type"),
        ("a: !!bool maybe", "a value is not of its type"),
        ("a: !!timestamp now", "a value is not of its type"), ("a: 2001-13-45", "month"),
        ("a: 0" + "7" * 9000, "integer"),
        ("a: " + "b" * MAX_YAML, "131,075 characters; at most 131,072 are read"),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_yaml_that_exhausts_or_confuses_its_parser_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        parse_yaml(text)
