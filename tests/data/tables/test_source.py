from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
from pathlib import Path

import pytest

from representer.data.tables import files
from representer.data.tables.files import physical_lines
from representer.errors import ArgumentError, DataError


def lines_of(path: Path, encoding: str = "utf-8") -> list[str]:
    return list(physical_lines(path, encoding))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_line_end_terminates_a_line_and_is_kept(tmp_path, end):
    path = written(tmp_path / "a.csv", f"one{end}two{end}three".encode())
    assert lines_of(path) == [f"one{end}", f"two{end}", "three"]


def test_form_feeds_and_line_separators_do_not_end_lines(tmp_path):
    path = written(tmp_path / "a.csv", "a\x0cb\u2028c\x85d\n".encode())
    assert lines_of(path) == ["a\x0cb\u2028c\x85d\n"]


def test_a_byte_order_mark_is_removed(tmp_path):
    path = written(tmp_path / "a.csv", b"\xef\xbb\xbftext\n")
    assert lines_of(path) == lines_of(path, "utf-8-sig") == ["text\n"]


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_and_plain_files_have_the_same_lines(tmp_path, suffix, compress):
    content = ("größer\n" * 5000).encode()
    path = written(tmp_path / f"a.csv{suffix}", compress(content))
    assert lines_of(path) == ["größer\n"] * 5000


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_truncated_and_damaged_compressed_files_are_rejected(tmp_path, suffix, compress):
    content = compress(os.urandom(20_000).hex().encode())
    for damaged in (content[: len(content) // 2], content[:3000] + b"\xff" * 50 + content[3050:]):
        path = written(tmp_path / f"a.csv{suffix}", damaged)
        with pytest.raises(DataError, match=r"a\.csv"):
            lines_of(path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_without_its_suffix_is_recognized(tmp_path, compress):
    path = written(tmp_path / "a.csv", compress(b"text,label\nx,y\n"))
    with pytest.raises(DataError, match=r"-compressed, not plain text.*rename it to a\.csv\."):
        lines_of(path)


def test_a_zip_archive_is_recognized(tmp_path):
    path = written(tmp_path / "a.csv", b"PK\x03\x04\x14\x00\x00\x00")
    with pytest.raises(DataError, match=r"a zip archive.*Unpack it"):
        lines_of(path)


def test_text_that_begins_like_a_magic_number_is_read(tmp_path):
    assert lines_of(written(tmp_path / "a.csv", b"BZh9 is a name\n")) == ["BZh9 is a name\n"]


def test_a_plain_file_with_a_compressed_suffix_is_rejected(tmp_path):
    for suffix in files.COMPRESSIONS:
        path = written(tmp_path / f"a.csv{suffix}", b"text,label\n")
        with pytest.raises(DataError, match="cannot be read"):
            lines_of(path)


def test_a_wrong_encoding_is_rejected_with_byte_offset_and_line(tmp_path):
    path = written(tmp_path / "a.csv", b"good\r\nlines\r\ncaf\xe9\r\n")
    with pytest.raises(DataError, match=r"line 3: byte 0xe9 at offset 16 is not utf-8.*latin-1"):
        lines_of(path)
    assert lines_of(path, "latin-1")[2] == "café\r\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [65_535, 65_536, 65_537, 200_001])
def test_the_location_of_an_invalid_byte_is_correct_across_chunks(tmp_path, end, before):
    row = b"x" * (17 - len(end)) + end
    content = (row * (before // 17 + 1))[:before]
    expected = len(content.decode().splitlines()) + content.endswith((b"\n", b"\r"))
    path = written(tmp_path / "a.csv", content + b"\xff")
    with pytest.raises(DataError, match=rf"line {expected}: byte 0xff at offset {before} "):
        lines_of(path)


def test_a_line_end_split_between_two_chunks_is_counted_once(tmp_path):
    path = written(tmp_path / "a.csv", b"x" * 65_535 + b"\r\n\xff")
    with pytest.raises(DataError, match="line 2: byte 0xff at offset 65537 "):
        lines_of(path)


def test_a_truncated_character_at_the_end_of_the_file_is_rejected(tmp_path):
    path = written(tmp_path / "a.csv", "good\ncafé".encode()[:-1])
    with pytest.raises(DataError, match="line 2: byte 0xc3 at offset 8"):
        lines_of(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_utf_16_is_recognized_and_read_on_request(tmp_path, encoding):
    path = written(tmp_path / "a.csv", "text\nönë\n".encode(encoding))
    with pytest.raises(DataError, match="UTF-16"):
        lines_of(path)
    assert lines_of(path, encoding) == ["text\n", "önë\n"]


def test_utf_16_without_a_byte_order_mark_is_detected_by_nul_bytes(tmp_path):
    path = written(tmp_path / "a.csv", "text\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=r"line 1: a NUL byte at character 2.*UTF-16"):
        lines_of(path)


def test_big_endian_text_without_a_byte_order_mark_is_rejected(tmp_path):
    path = written(tmp_path / "a.csv", b"\xd8\x00\x00a\xd8")
    with pytest.raises(DataError, match="utf-16"):
        lines_of(path, "utf-16")


def test_a_nul_byte_is_rejected_with_its_line(tmp_path):
    path = written(tmp_path / "a.csv", b"text\ngood\nb\0d\n")
    with pytest.raises(DataError, match="line 3: a NUL byte at character 2"):
        lines_of(path)


@pytest.mark.parametrize("encoding", ["hex", "no such", "rot13", ""])
def test_encodings_that_are_not_for_text_are_rejected(tmp_path, encoding):
    with pytest.raises(ArgumentError, match=r"encoding is .*latin-1"):
        lines_of(written(tmp_path / "a.csv", b"text\n"), encoding)


def test_an_endless_line_is_rejected_with_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 100)
    path = written(tmp_path / "a.csv", b"x" * 99 + b"\n" + b"y" * 101 + b"\n")
    with pytest.raises(DataError, match="line 2: longer than 100 characters"):
        lines_of(path)


def test_a_missing_file_is_rejected_with_a_suggestion(tmp_path):
    written(tmp_path / "reviews.csv", b"text\n")
    with pytest.raises(DataError, match=r"no such file.*Did you mean 'reviews\.csv'"):
        lines_of(tmp_path / "review.csv")


def test_a_folder_and_a_pipe_are_rejected(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        lines_of(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="not a regular file"):
        lines_of(tmp_path / "pipe.csv")


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_a_device_is_rejected(name):
    with pytest.raises(DataError, match="not a regular file"):
        lines_of(Path(name))


def test_a_socket_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.csv")
        with pytest.raises(DataError, match="not a regular file"):
            lines_of(Path("a.csv"))


def test_a_pipe_that_replaces_a_checked_file_does_not_block(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", b"text\n")

    def swap(checked: Path) -> Path:
        checked.unlink()
        os.mkfifo(checked)
        return checked

    monkeypatch.setattr(files, "regular_file", swap)
    with pytest.raises(DataError, match="not a regular file"):
        files.open_regular(path)


def test_a_path_that_is_not_utf_8_is_rejected(tmp_path):
    path = written(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")), b"text\n")
    with pytest.raises(DataError, match=r"caf\\xe9\.csv: the path is not valid UTF-8"):
        lines_of(path)


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_a_file_that_expands_too_far_is_rejected(tmp_path, suffix, compress):
    path = written(tmp_path / f"a.csv{suffix}", compress(b"a,b\n" * 400_000))
    with pytest.raises(DataError, match=r"expands to more than 250 times its size\. Decompress"):
        for _ in physical_lines(path):
            pass


def test_a_file_can_expand_to_exactly_the_limit(tmp_path):
    for limit in (9, 10):
        stream = files.Limited(io.BytesIO(b"x" * 10), limit, tmp_path)
        if limit == 10:
            assert stream.read() == b"x" * 10
        else:
            with pytest.raises(DataError, match="expands to more"):
                stream.read()


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "a\0b.csv", "no/such/folder/a.csv"])
def test_an_invalid_path_is_rejected(tmp_path, name):
    with pytest.raises(DataError):
        lines_of(tmp_path / name)


@pytest.mark.parametrize("content", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"])
def test_a_file_with_only_a_byte_order_mark_is_rejected(tmp_path, content):
    with pytest.raises(DataError, match="holds no text"):
        lines_of(written(tmp_path / "a.txt", content))


def test_an_empty_file_is_rejected(tmp_path):
    with pytest.raises(DataError, match="0 bytes"):
        lines_of(written(tmp_path / "a.csv", b""))
    with pytest.raises(DataError, match="no data once decompressed"):
        lines_of(written(tmp_path / "a.csv.gz", gzip.compress(b"")))


def test_a_file_without_read_permission_is_rejected(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", b"text\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(DataError, match="no permission"):
        lines_of(path)
