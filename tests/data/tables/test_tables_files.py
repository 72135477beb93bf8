"""Files as blocks of physical lines, and the format of each."""

from __future__ import annotations

import csv
import json
import time
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from representer.data.tables.columns import MISSING
from representer.data.tables.files import FORMATS, ROW, TABLES, TASKS, BlockSize, blocks, format_of
from representer.data.tables.reading import read_blocks, read_grid, read_jsonl, table_files
from representer.data.text import read_tables
from representer.errors import DataError
from representer.tasks.registry import TASKS as ALL

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
    found = list(blocks(iter(rows), BlockSize(head=3 * (ROW + 10), rest=2 * (ROW + 10))))
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


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("S001R04.EDF", "mne"), ("a_raw.fif.gz", "mne"), ("a.CSV.XZ", "csv"), ("a.Sdf", "sdf"),
        ("SMSSpamCollection", "lines"), ("cooking.train", "lines"), ("a.docx", None),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "a JSON array, not an object"), ('"text"', "a JSON string, not an object"),
        ("17", "a JSON number, not an object"), ("null", "a JSON value, not an object"),
        ("{'text': 'a'}", "not JSON: .* at character 2"),
        ('{"text": "a"} {"text": "b"}', "not JSON: Extra data at character 15"),
        ('{"text": "a", "text": "b"}', "the key 'text' occurs twice"),
        ('{"text": NaN}', "NaN is not a JSON value"), ("[" * 100_000, "nested more than 64 levels"),
        ('{"n": ' + "1" * 5000 + "}", "not JSON"),
    ],
)  # fmt: skip
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
