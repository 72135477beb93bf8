"""Workbooks are read as the CSV file that Excel would save of their first sheet with cells."""

from __future__ import annotations

import datetime
import sys
import zipfile

import openpyxl
import pytest

from representer.data.tables import read_grid
from representer.data.text import read_table
from representer.errors import DataError, MissingExtraError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.xlsx"


def write(path, *rows, sheets=()):
    book = openpyxl.Workbook()
    for name in sheets:
        book.create_sheet(name)
    for row in rows:
        book.worksheets[-1].append(row)
    book.save(path)
    return path


def test_cells_are_texts_and_lines_are_rows(path):
    day, moment = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5)
    write(path, ["text", "n", "x"], ["a\nb", 3, True], [], ["é ", 2.5, day], [7, -1e20, moment])
    grid = read_grid(path, [], header=True)
    assert grid.columns == ["text", "n", "x"]
    assert grid.rows == [
        ["a\nb", "3", "True"], ["é ", "2.5", "2020-01-02"], ["7", "-1e+20", "2020-01-02 03:04:05"],
    ]  # fmt: skip
    assert grid.lines == [2, 4, 5]
    assert [(row.line, row.reason) for row in grid.dropped] == [(3, "blank line")]
    assert grid.notes == []


def test_the_first_sheet_with_cells_is_read_and_named(path):
    write(path, [None, "text", "label"], [1, "good", "yes"], [2, "bad", "no"], sheets=["data"])
    table = read_table(path)
    assert (table.texts, table.labels) == (["good", "bad"], ["yes", "no"])
    assert table.notes[0] == "The sheet 'data' is read, of 2."
    assert read_grid(path, [], header=False).rows[0] == ["", "text", "label"]
    assert read_grid(path, []).head == ["", "text", "label"]


def test_invalid_workbooks_are_rejected(path, monkeypatch):
    write(path)
    with pytest.raises(DataError, match=r"a\.xlsx: has no cells"):
        read_grid(path, [])
    content = write(path, ["text"], ["a"]).read_bytes()
    for damaged in (content[:-100], b"text,label\n", b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.xlsx: (cannot be read as a workbook|is empty)"):
            read_grid(path, [])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * (80 << 20))
    with pytest.raises(DataError, match=r"expands to more than 250 times its size"):
        read_grid(path, [])
    packed = path.with_name("a.ods.gz")
    packed.write_bytes(content)
    with pytest.raises(DataError, match="Decompress the file first; a workbook is compressed"):
        read_grid(packed, [])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"python-calamine.*representer\[train\]"):
        read_grid(path, [])


def test_the_sheet_with_a_table_is_read_wherever_it_is(path):
    book = openpyxl.Workbook()
    book.active.append(["made by", "me"])
    for name, rows in (("Notes", [["Read me"]] * 9), ("Data", [["Of 2024"], [], ["text", "label"],
                       ["good", "yes"], ["bad", "no"]]), ("Text", [["text"]])):  # fmt: skip
        for row in (sheet := book.create_sheet(name), *rows)[1:]:
            sheet.append(row)
    book.save(path)
    table = read_table(path)
    assert (table.texts, table.labels) == (["good", "bad"], ["yes", "no"])
    assert table.notes[0] == "The sheet 'Data' is read, of 4."
