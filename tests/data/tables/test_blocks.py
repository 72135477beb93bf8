"""Tables in blocks: the rows of all blocks are those of the whole file, in any format."""

from __future__ import annotations

import csv
import json
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from representer.data.tables.files import ROW, BlockSize, blocks
from representer.data.tables.reading import read_blocks, read_grid, table_files
from representer.data.text import read_tables
from representer.errors import DataError

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
