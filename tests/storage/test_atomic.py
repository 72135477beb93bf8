"""Atomic files, by what a reader can find."""

from __future__ import annotations

import ast
import contextlib
import errno
import json
import os
import re
import socket
import stat
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
import safetensors.torch
import torch

from representer.errors import DataError, StorageError
from representer.storage import atomic
from representer.storage.atomic import MAX_YAML, parse_json, parse_yaml, read_bytes, require_shallow


def test_written_content_can_be_read(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "λ.txt", "γ\n")
    atomic.write_json(tmp_path / "a.json", {"λ": [1, 2.5]})
    atomic.write_bytes(tmp_path / "b", b"one", b"two")
    assert (tmp_path / "λ.txt").read_text(encoding="utf-8") == "γ\n"
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"λ": [1, 2.5]}
    assert (tmp_path / "b").read_bytes() == b"onetwo"
    assert len(list(tmp_path.iterdir())) == 3


def test_content_is_on_the_disk_before_its_name_and_its_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    events: list[str] = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append(f"{'folder' if is_folder else 'content'}, named: {path.exists()}")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    atomic.write_text(path, "x")
    assert events == ["content, named: False", "folder, named: True"]


def test_weights_keep_their_bits_and_their_header(tmp_path: Path) -> None:
    shared = torch.randn(4, 3)
    tensors = {"b": shared.t(), "a": shared, "c": torch.tensor(1.0, requires_grad=True)}
    atomic.write_tensors(tmp_path / "w.safetensors", tensors, {"metrics": "{}"})
    loaded = safetensors.torch.load_file(tmp_path / "w.safetensors")
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    with safetensors.safe_open(tmp_path / "w.safetensors", "pt") as file:
        assert file.metadata() == {"metrics": "{}"}


def test_nan_does_not_get_into_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic.write_json(tmp_path / "a.json", float("nan"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stage", ["opened", "begun", "written", "synced"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    atomic.write_text(tmp_path / "a.txt", "old")
    atomic.reset()
    monkeypatch.setenv(atomic.VARIABLE, f"txt.{stage}:enospc")
    with pytest.raises(StorageError, match=r"a\.txt cannot be written: no space left on device"):
        atomic.write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_device_is_an_error_of_storage() -> None:
    with pytest.raises(StorageError):
        atomic.write_text("/dev/full/a.txt", "x")
    with pytest.raises(StorageError, match="cannot be written"):
        atomic.write_text("/proc/a.txt", "x")


@pytest.mark.parametrize("name", ["missing/a.txt", "x" * 300])
def test_a_path_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match=f"{name} cannot be written: .*. Choose|The folder"):
        atomic.write_text(tmp_path / name, "x")


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    contents = [bytes([i]) * 50_000 for i in range(30)]
    atomic.write_bytes(path, contents[0])
    torn: list[bytes] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            data = path.read_bytes()
            if data not in contents:
                torn.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    for content in contents:
        atomic.write_bytes(path, content[:20_000], content[20_000:])
    is_over.set()
    reader.join()
    assert not torn


def test_temporary_names_cannot_be_guessed_and_links_there_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    atomic.reset()
    replace = Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda self, target: (names.append(self.name), replace(self, target))[1]
    )
    for _ in range(2):
        atomic.write_text(tmp_path / "a.txt", "x")
    assert names[0] != names[1]
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / ".representer-0000000000000000.tmp").symlink_to(outside)
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda count: "0" * 2 * count)
    with pytest.raises(StorageError, match="file exists"):
        atomic.write_text(tmp_path / "a.txt", "new")
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("target", ["outside", "missing", "folder", "report.html"])
def test_a_link_that_is_written_to_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / target)
    for write in (atomic.write_bytes, atomic.append):
        with pytest.raises(StorageError, match=r"report\.html cannot be written: .*symbolic link"):
            write(link, b"page")
    assert link.is_symlink()
    assert (tmp_path / "outside").read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "folder", "report.html"}


def test_a_line_that_does_not_fit_is_not_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    atomic.append(path, b"first\n")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="no space left on device"):
            atomic.append(path, b"second\n")
    atomic.append(path, b"third\n")
    assert path.read_bytes() == b"first\nthird\n"


# What writes to a path by itself, and why a link there does no harm.
WRITERS = {
    "cli/errors.py open": "the null device", "cli/main.py open": "the null device",
    "cli/parser.py open": "in a temporary folder", "hub.py save": "an estimator's own",
    "kernels/gram.py open": "named by the user: a matrix larger than memory, and its journal",
    "kernels/gram.py open_memmap": "the same", "kernels/gram.py save": "of a hash, in memory",
    "models/base.py copyfile": "in a temporary folder", "storage/atomic.py open": "here",
    "tasks/use.py open": "a device or a pipe, named by the user",
}  # fmt: skip
CALLS = {
    "copy2", "copyfile", "copytree", "save", "savefig", "savez",
    "savez_compressed", "tofile",
}  # fmt: skip
OF_THIS_LIBRARY = {"safetensors.torch", ""}  # they write through `atomic`, or to memory


def test_every_file_is_written_by_the_functions_that_refuse_links() -> None:
    """A new writer goes through `atomic`, or says here why it does not."""
    package = Path(atomic.__file__).parents[1]
    called = re.compile(rf"\b(?:{'|'.join(CALLS)}|open|open_memmap)\(")
    names = {
        f"{path.relative_to(package).as_posix()} {name}"
        for path in package.rglob("*.py")
        if called.search(source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and (name := _writer(node))
    }
    assert names == set(WRITERS)


def _writer(call: ast.Call) -> str:
    """Return the name of a call that writes to a path."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name not in ("open", "open_memmap") and name not in CALLS:
        return ""
    through = ast.unparse(call.func).rpartition(".")[0]
    words = [ast.unparse(value) for value in (*call.args, *(one.value for one in call.keywords))]
    if name in ("open", "open_memmap"):
        is_writer = any(re.fullmatch(r"'(r?b?[+]|[wxa]b?[+]?)b?'", word) for word in words)
    else:
        is_in_memory = bool({"content", "drawn", "buffer"} & set(words))
        is_writer = name in CALLS and through not in OF_THIS_LIBRARY and not is_in_memory
    return name if is_writer else ""


def test_leftovers_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    ours = ".representer-0123456789abcdef.tmp"
    theirs = [".a.ckpt.4701.tmp", ".lock", ".representer-notes.tmp", "a.tmp"]
    for name in (ours, *theirs):
        (tmp_path / name).write_text("x")
    atomic.remove_leftovers(tmp_path, pytest.fail)
    atomic.remove_leftovers(tmp_path / "missing", pytest.fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == theirs


def test_a_leftover_that_cannot_be_deleted_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".representer-0123456789abcdef.tmp").mkdir()
    lines: list[str] = []
    atomic.remove_leftovers(tmp_path, lines.append)
    assert len(lines) == 1
    assert "cannot be deleted" in lines[0]


def test_a_failpoint_fires_at_its_visit_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    atomic.reset()
    monkeypatch.setenv(atomic.VARIABLE, "here:3:raise")
    atomic.failpoint("here")
    atomic.failpoint("there")
    atomic.failpoint("here")
    with pytest.raises(RuntimeError, match="failpoint here"):
        atomic.failpoint("here")
    atomic.failpoint("here")


# Reading files that a stranger may have written.


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


@pytest.mark.parametrize(("text", "depth"), [
    ('[["[[[", "\\\\"], "]]]"]', 2), ('["\\"[[[", [1]]', 2), ('["a\\\\\\"[[[\\\\", [[1]]]', 3),
    ('{"[": {"{": ["}"]}}', 3), ('["never closed [[[[', 1),
])  # fmt: skip
def test_brackets_in_strings_do_not_count_as_nesting(text: str, depth: int) -> None:
    text += " " + "[]" * 64  # of few brackets the depth is not computed
    for data in (text, text.encode()):
        require_shallow(data, max(1, depth))
        with pytest.raises(ValueError, match=f"nested more than {depth - 1} levels"):
            require_shallow(data, depth - 1)


def test_depth_is_computed_across_the_pieces_of_a_long_text(monkeypatch) -> None:
    monkeypatch.setattr("representer.storage.atomic._CHUNK", 3)
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
