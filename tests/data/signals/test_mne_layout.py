"""Sizes and links of FIF and EDF files are checked before MNE follows them."""

from __future__ import annotations

import gzip
import os
import struct

import pytest

from representer.data.signals.mne_files import check_edf, check_fif, require_plausible
from representer.errors import DataError


def tag(kind: int, data: bytes = b"", *, following: int = 0, length: int | None = None) -> bytes:
    return struct.pack(">iIii", kind, 31, len(data) if length is None else length, following) + data


START = tag(100, bytes(20)) + tag(101, struct.pack(">i", -1))


def written(path, content: bytes):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.fif", "a.fif.gz"])
@pytest.mark.parametrize(("content", "problem"), [
    (tag(101), "does not start like a FIF file"),
    (START + tag(3, b"ab", length=2**31 - 1), "declares 2,147,483,647 bytes, and 2 are left"),
    (START + tag(3, b"ab", length=-5), "declares -5 bytes"),
    (START + tag(3, b"ab", following=36), "links backwards"),
    (START + tag(118, b"../../etc/passwd"), "in another folder"),
    (START + tag(118, b"/dev/zero"), "in another folder"),
    (tag(100, bytes(20)) + tag(101, struct.pack(">i", 10**6)), "directory .* after the end"),
    (tag(100, bytes(20)) + tag(101, struct.pack(">i", 36)), "directory .* is damaged"),
    (
        tag(100, bytes(20)) + tag(101, struct.pack(">i", 56))
        + tag(102, struct.pack(">iIii", 3, 3, 4, 10**6)),
        "has an entry after the end",
    ),
])  # fmt: skip
def test_invalid_tags_are_rejected(tmp_path, name, content, problem):
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=problem):
        check_fif(path)


@pytest.mark.parametrize("name", ["a.fif", "a.fif.gz"])
def test_valid_tags_pass_and_a_cut_file_does_not(tmp_path, name):
    listed = tag(102, struct.pack(">iIii", 100, 31, 20, 0))
    valid = tag(100, bytes(20)) + tag(101, struct.pack(">i", 56)) + listed
    check_fif(written(tmp_path / name, valid))
    with pytest.raises(ValueError, match="directory of tags is damaged"):
        check_fif(written(tmp_path / name, valid[:-4]))
    check_fif(written(tmp_path / name, START + tag(108, bytes(3), following=-1)))


def test_a_recording_that_continues_itself_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"a\.fif continues itself"):
        check_fif(written(tmp_path / "a.fif", START + tag(118, b"a.fif")))
    written(tmp_path / "b.fif", START + tag(117, struct.pack(">i", 1)))
    with pytest.raises(ValueError, match=r"b-1\.fif continues itself"):
        check_fif(written(tmp_path / "b-1.fif", START + tag(118, b"b.fif")))


def test_the_parts_of_a_recording_are_checked_too(tmp_path):
    path = written(tmp_path / "a.fif", START + tag(118, b"a-1.fif"))
    check_fif(path)  # the part is missing, which MNE may allow
    os.mkfifo(tmp_path / "a-1.fif")
    with pytest.raises(DataError, match=r"a-1\.fif: is not a regular file"):
        check_fif(path)


def test_a_gz_file_that_expands_too_far_is_rejected(tmp_path):
    with pytest.raises(DataError, match="expands to more than"):
        check_fif(written(tmp_path / "a.fif.gz", START + tag(3, bytes(2 << 20))))


def edf(signals: str, samples: list[str], data: int) -> bytes:
    head = b"0".ljust(252) + signals.encode().ljust(4)
    fields = b"".join(field.encode().ljust(8) for field in samples)
    return head + b" " * (216 * len(samples)) + fields + b" " * (32 * len(samples)) + bytes(data)


@pytest.mark.parametrize(("content", "problem"), [
    (edf("2", ["4", "4"], 0)[:200], "header ends too early"),
    (edf("9999", ["4", "4"], 16), "declares 9999 signals"),
    (edf("0", [], 16), "declares 0 signals"),
    (edf("-1", ["4"], 16), "number of signals is '-1  '"),
    (edf("1", ["1_0"], 160), "number of samples is '1_0     '"),
    (edf("2", ["4", "99999999"], 160), "no complete data record"),
    (edf("2", ["0", "0"], 0), "no complete data record"),
])  # fmt: skip
def test_invalid_edf_headers_are_rejected(tmp_path, content, problem):
    path = tmp_path / "a.edf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        check_edf(path)


@pytest.mark.parametrize(("name", "size"), [("a.edf", 16), ("a.bdf", 24)])
def test_a_header_needs_the_bytes_of_one_record(tmp_path, name, size):
    path = tmp_path / name
    path.write_bytes(edf("2", ["4", "4"], size))
    check_edf(path)  # raises nothing
    path.write_bytes(edf("2", ["4", "4"], size - 1))
    with pytest.raises(ValueError, match="no complete data record"):
        check_edf(path)


def test_all_signals_are_counted_at_the_highest_rate():
    require_plausible(10_000_000 + 100 * 16, 16)
    with pytest.raises(ValueError, match="are declared in 16 bytes"):
        require_plausible(10_000_001 + 100 * 16, 16)
