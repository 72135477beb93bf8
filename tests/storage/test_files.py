"""Reading files that a stranger may have written."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from representer.storage.files import check_yaml, parse_json, read_bytes


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


def test_yaml_is_bounded_and_has_no_aliases() -> None:
    check_yaml("a: [1, {b: 2}]\n")
    with pytest.raises(ValueError, match="nested more than 64 levels"):
        check_yaml("[" * 100_000)
    with pytest.raises(ValueError, match="it has an alias"):
        check_yaml("a: &a [1]\nb: [*a, *a]\n")
