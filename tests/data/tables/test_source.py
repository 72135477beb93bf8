from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
import time
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from representer.data.molecules import read_molecules
from representer.data.tables import columns, files, reading
from representer.data.tables.columns import MISSING, blocks
from representer.data.tables.files import FORMATS, ROW, TABLES, TASKS, BlockSize, format_of
from representer.data.tables.reading import (
    WHOLE,
    first_lines,
    physical_lines,
    read_blocks,
    read_grid,
    read_jsonl,
    table_files,
)
from representer.data.text import read_tables
from representer.errors import ArgumentError, DataError
from representer.options.registry import TASKS as ALL


def lines_of(path: Path, encoding: str = "utf-8") -> list[str]:
    return list(physical_lines(path, encoding))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# without the time, which would be in the names of tests: each process collects them at another one
GZIP = partial(gzip.compress, mtime=0)
PACK = {".gz": GZIP, ".bz2": bz2.compress, ".xz": lzma.compress}
NOISE = {
    suffix: pack(random.Random(0).randbytes(20_000).hex().encode()) for suffix, pack in PACK.items()
}
FAR = r"expands to more than 250 times its size, with 100 bytes more for each line\. Decom"


@pytest.mark.parametrize(("content", "encoding", "lines"), [
    *((f"one{end}two{end}three".encode(), "utf-8", [f"one{end}", f"two{end}", "three"])
      for end in ("\n", "\r\n", "\r")),
    ("a\x0cb\u2028c\x85d\n".encode(), "utf-8", ["a\x0cb\u2028c\x85d\n"]),
    *((b"\xef\xbb\xbftext\n", name, ["text\n"]) for name in ("utf-8", "utf-8-sig")),
    (b"BZh9 is a name\n", "utf-8", ["BZh9 is a name\n"]), (b"caf\xe9\r\n", "latin-1", ["café\r\n"]),
    *(("text\nönë\n".encode(name), name, ["text\n", "önë\n"]) for name in ("utf-16", "utf-32")),
])  # fmt: skip
def test_lines_end_where_a_text_does_and_are_decoded_on_request(tmp_path, content, encoding, lines):
    assert lines_of(written(tmp_path / "a.csv", content), encoding) == lines


@pytest.mark.parametrize(("name", "content", "message"), [
    *((f"a.csv{suffix}", damaged, r"a\.csv") for suffix, packed in NOISE.items()
      for damaged in (packed[: len(packed) // 2], packed[:3000] + b"\xff" * 50 + packed[3050:])),
    *(("a.csv", pack(b"text,label\nx,y\n"), r"-compressed, not plain.*rename it to a\.csv\.")
      for pack in PACK.values()),
    ("a.csv", b"PK\x03\x04\x14\x00\x00\x00", r"a zip archive.*Unpack it"),
    *((f"a.csv{suffix}", b"text,label\n", "cannot be read") for suffix in files.COMPRESSIONS),
    *((f"a.csv{suffix}", pack(b"a,b\n" * 400_000), FAR) for suffix, pack in PACK.items()),
    ("a.csv", b"a\r\nb\r\ncaf\xe9\r\n", "line 3: byte 0xe9 at offset 9 is not utf-8.*latin-1"),
    ("a.csv", b"x" * 65_535 + b"\r\n\xff", "line 2: byte 0xff at offset 65537 "),
    ("a.csv", "good\ncafé".encode()[:-1], "line 2: byte 0xc3 at offset 8"),
    *(("a.csv", "text\n".encode(name), f'encoding="{name}"') for name in ("utf-16", "utf-32")),
    ("a.csv", "text\n".encode("utf-16-le"), "line 1: a NUL byte at character 2.*UTF-16"),
    ("a.csv", b"text\ngood\nb\0d\n", "line 3: a NUL byte at character 2"),
    *(("a.txt", b"\xef\xbb\xbf"[:size], "holds no text") for size in (1, 2, 3)),
    ("a.csv", b"", r"0 bytes\)\. Write or download the file again"),
    ("a.csv.gz", GZIP(b""), r"no data once decompressed\. Write or download"),
])  # fmt: skip
def test_damage_is_refused_with_its_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        lines_of(written(tmp_path / name, content))


@pytest.mark.parametrize(("name", "message"), [
    ("review.csv", r"no such file.*Did you mean 'reviews\.csv'"), (".", "is a folder"),
    ("pipe.csv", "not a regular file"), ("/dev/zero", "not a regular file"),
    ("/dev/null", "not a regular file"), ("x" * 300 + ".csv", r"x\.csv"), ("a\0b.csv", r"b\.csv"),
    ("no/such/folder/a.csv", "no such"),
    (os.fsdecode(b"caf\xe9.csv"), r"caf\\xe9\.csv: the path is not valid UTF-8"),
])  # fmt: skip
def test_other_things_than_a_regular_file_are_refused(tmp_path, name, message):
    written(tmp_path / "reviews.csv", b"text\n")
    written(tmp_path / os.fsdecode(b"caf\xe9.csv"), b"text\n")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=message):
        lines_of(tmp_path / name)


def test_equal_lines_are_counted_with_what_each_takes_in_memory(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    rows = [json.dumps({"text": f"a {i * 7919 % 100_003}", "label": "x"}) for i in range(60_000)]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    assert sum(len(block.rows) for block in read_blocks(path, ["text"])) == len(rows)
    path.write_bytes(gzip.compress(b'{"text": "a", "label": "x"}\n' * len(rows)))
    with pytest.raises(DataError, match="100 bytes more for each line"):
        list(read_blocks(path, ["text"]))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [65_535, 65_536, 65_537, 200_001])
def test_the_location_of_an_invalid_byte_is_correct_across_chunks(tmp_path, end, before):
    row = b"x" * (17 - len(end)) + end
    content = (row * (before // 17 + 1))[:before]
    expected = len(content.decode().splitlines()) + content.endswith((b"\n", b"\r"))
    path = written(tmp_path / "a.csv", content + b"\xff")
    with pytest.raises(DataError, match=rf"line {expected}: byte 0xff at offset {before} "):
        lines_of(path)


def test_big_endian_text_without_a_byte_order_mark_is_rejected(tmp_path):
    path = written(tmp_path / "a.csv", b"\xd8\x00\x00a\xd8")
    with pytest.raises(DataError, match="utf-16"):
        lines_of(path, "utf-16")


@pytest.mark.parametrize("encoding", ["hex", "no such", "rot13", ""])
def test_encodings_that_are_not_for_text_are_rejected(tmp_path, encoding):
    with pytest.raises(ArgumentError, match=r"encoding is .*latin-1"):
        lines_of(written(tmp_path / "a.csv", b"text\n"), encoding)


def test_an_endless_line_is_rejected_with_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 100)
    path = written(tmp_path / "a.csv", b"x" * 99 + b"\n" + b"y" * 101 + b"\n")
    with pytest.raises(DataError, match="line 2: longer than 100 characters"):
        lines_of(path)


def test_a_pipe_that_replaces_a_checked_file_does_not_block(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", b"text\n")

    def swap(checked: Path) -> Path:
        checked.unlink()
        os.mkfifo(checked)
        return checked

    monkeypatch.setattr(files, "regular_file", swap)
    with pytest.raises(DataError, match="not a regular file"):
        files.open_regular(path)


def test_a_file_can_expand_to_exactly_the_limit(tmp_path):
    for limit in (9, 10):
        stream = reading.Limited(io.BytesIO(b"x" * 10), limit, tmp_path)
        if limit == 10:
            assert stream.read() == b"x" * 10
        else:
            with pytest.raises(DataError, match="expands to more"):
                stream.read()


def test_a_file_without_read_permission_is_rejected(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", b"text\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(DataError, match="no permission"):
        lines_of(path)


# Files as blocks of physical lines, and the format of each.


# Tables in blocks: the rows of all blocks are those of the whole file, in any format.


ROWS = [(f'a "text", of\ntwo lines {i}', "ab"[i % 2]) for i in range(50)]


def write(path: Path, rows: list[tuple[str, str]] = ROWS) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({"text": [t for t, _ in rows], "label": [c for _, c in rows]}), path
        )
    elif path.suffix == ".jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        path.write_text("\n\n".join(lines))
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([("text", "label"), *rows[:9], ("text", "label"), (), *rows[9:]])
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("size", [BlockSize(1, 1), BlockSize(1000, 7), BlockSize(1 << 20, 1)])
def test_the_blocks_have_the_rows_lines_and_dropped_lines_of_the_file(tmp_path, suffix, size):
    path = write(tmp_path / f"a.{suffix}")
    whole, parts = read_grid(path, ["text"]), list(read_blocks(path, ["text"], size=size))
    assert [list(row) for row in whole.rows] == [list(row) for row in ROWS]
    for name in ("rows", "lines", "dropped"):
        joined = list(chain.from_iterable(getattr(part, name) for part in parts))
        assert joined == list(getattr(whole, name)), name
    assert {tuple(part.columns) for part in parts} == {("text", "label")}
    if size.head < 1 << 20:
        assert len(parts) > 1


def test_a_block_ends_with_the_row_that_reaches_the_limit():
    rows = [(i, ["x" * 10]) for i in range(7)]
    found = list(
        blocks(iter(rows), BlockSize(head=3 * (ROW + 10), rest=2 * (ROW + 10)), Path("x.csv"))
    )
    assert [[line for line, _ in block] for block in found] == [[0, 1, 2], [3, 4], [5, 6]]


def test_folders_and_patterns_are_read_in_the_order_of_the_names(tmp_path):
    for name, part in (("b.csv", ROWS[20:]), ("a.csv", ROWS[:20])):
        write(tmp_path / name, part)
    (tmp_path / ".hidden.csv").write_text("other\n1\n")
    (tmp_path / "notes.txt").write_text("no table")
    for data in (tmp_path, tmp_path / "*.csv", str(tmp_path / "[ab].csv")):
        read = read_tables(data, "text", "label", require_label=True, size=BlockSize(500, 500))
        found = [
            (text, label)
            for _, one in read
            for text, label in zip(one.texts, one.labels or (), strict=True)
        ]
        assert found == ROWS


@pytest.mark.parametrize("name", ["*.csv", "."])
def test_a_pattern_or_a_folder_without_tables_is_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"no file matches|no tables"):
        table_files(tmp_path / name)


def test_a_folder_with_several_formats_is_refused(tmp_path):
    write(tmp_path / "a.csv")
    write(tmp_path / "b.jsonl")
    with pytest.raises(DataError, match=r"several formats: csv, jsonl"):
        table_files(tmp_path)


def test_a_file_with_other_columns_is_refused_by_name(tmp_path):
    write(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("label,text\na,wave\n")
    with pytest.raises(DataError, match=r"b\.csv.*the columns are 'label', 'text'"):
        list(read_tables(tmp_path, "text", None, require_label=False, size=BlockSize()))


# The format of a file by its suffix.


@pytest.mark.parametrize(("name", "kind"), [
    ("S001R04.EDF", "mne"), ("a_raw.fif.gz", "mne"), ("a.CSV.XZ", "csv"), ("a.Sdf", "sdf"),
    ("SMSSpamCollection", "lines"), ("cooking.train", "lines"), ("a.docx", None),
])  # fmt: skip
def test_the_suffix_tells_the_format_in_either_case_and_under_a_compression(name, kind):
    assert format_of(Path(name)) == kind


def test_tables_have_no_task_of_their_own():
    assert set(TASKS.values()) <= {*ALL}
    assert not set(TASKS) & {FORMATS[suffix] for suffix in TABLES}


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


@pytest.mark.parametrize(("line", "message"), [
    ("[1, 2]", "a JSON array, not an object"), ('"text"', "a JSON string, not an object"),
    ("17", "a JSON number, not an object"), ("null", "a JSON value, not an object"),
    ("{'text': 'a'}", "not JSON: .* at character 2"),
    ('{"text": "a"} {"text": "b"}', "not JSON: Extra data at character 15"),
    ('{"text": "a", "text": "b"}', "the key 'text' occurs twice"),
    ('{"text": NaN}', "NaN is not a JSON value"), ("[" * 100_000, "nested more than 64 levels"),
    ('{"n": ' + "1" * 5000 + "}", "not JSON"),
])  # fmt: skip
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


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("a.csv", "text,label\n", "a,b\n"), ("a.jsonl", '{"text": "a"}\n', '{"text": "b"}\n'),
        ("a.txt", "a text\n", "another\n"), ("a.smi", "CCO\n", "CCN\n"),
    ],
)  # fmt: skip
def test_very_many_blank_lines_are_refused_before_they_fill_the_memory(
    tmp_path, monkeypatch, name, head, row
):
    monkeypatch.setattr(columns, "MOST_DROPPED", 3)
    path = tmp_path / name
    few, many = (head + ("\n" * count + row) * 2 for count in (3, 4))
    path.write_text(few)
    read = read_molecules if name.endswith("smi") else partial(read_grid, wanted=["text"])
    read(path)
    path.write_text(many)
    with pytest.raises(DataError, match=r"more than 3 rows without content .* Delete them"):
        read(path)


@pytest.mark.parametrize("shift", range(4))
def test_a_first_object_of_any_length_is_a_line(tmp_path: Path, shift: int):
    path = tmp_path / "a.jsonl"
    rows = [
        {"text": "x" * shift, "vector": [0.5, [1], {"a": 2}] * 9000, "label": "a"},
        {"text": "b"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (grid,) = read_jsonl(path, size=WHOLE)
    assert grid.lines == [1, 2]
    path.write_text('{"text": "one,\u2028two", "label": "a"}\n{"text": "b", "label": "c"}\n')
    (grid,) = read_jsonl(path, size=WHOLE)
    assert grid.rows[0][0] == "one,\u2028two"


def test_a_document_whose_second_line_is_long_is_a_document(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('{\n"data": ' + json.dumps([{"text": "a" * 99}] * 1000) + "}")
    (grid,) = read_jsonl(path, size=WHOLE)
    assert len(grid.rows) == 1000


def test_first_lines_are_whole_and_end_where_a_text_does(tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("".join(f"a\t{k}\x0bb{'c' * 4000}\n" for k in range(30)))
    content = [line.split("\t")[1][:4] for line in first_lines(path, "utf-8", 1000)]
    assert content == [f"{k}\x0bbcc"[:4] for k in range(16)]
    assert {len(line) for line in first_lines(path, "utf-8", 9)} == {4005}
