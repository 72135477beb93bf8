"""Workbooks: their sheets, cells and layout."""

from __future__ import annotations

import datetime
import io
import struct
import sys
import zipfile
from contextlib import nullcontext

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.tables import read_grid
from representer.data.tables.files import guard_formula, unguard_formula
from representer.data.tables.workbook import check_workbook
from representer.data.text import read_table
from representer.errors import DataError, MissingExtraError

# Workbooks are read as the CSV file that Excel would save of their first sheet with cells.


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


# Cells that could be run as formulas.


@pytest.mark.parametrize(
    "cell", ["=cmd|' /C calc'!A0", "+SUM(A1)", "-ve", "@user hi", "\t=1+1", "\r=1", "=1+1", "'=1"]
)
def test_a_formula_gets_an_apostrophe(cell):
    assert guard_formula(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["", "-1.5", "+3", "-1e5", "+", "--", "a=b", "'tis", "C=O", "-inf"]
)
def test_numbers_signs_and_texts_are_not_changed(cell):
    assert guard_formula(cell) == unguard_formula(cell) == cell


@given(st.text(st.sampled_from("=+-@'\t\ra1. ")))
def test_the_guard_is_undone_exactly(cell):
    assert unguard_formula(guard_formula(cell)) == cell


# Workbooks whose cells are far apart are refused before their rectangle is allocated.


TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"


def archive(name: str, content: str, more: str = "") -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, content)
        if more:
            made.writestr(more, "<a/>")
    file.seek(0)
    return file


def sheet(rows: str, prefix: str = "") -> io.BytesIO:
    xml = f"<{prefix}sheetData>{rows}</{prefix}sheetData>"
    declared = f' xmlns:{prefix[:-1]}="m"' if prefix else ""
    return archive("xl/worksheets/sheet1.xml", f"<worksheet{declared}>{xml}</worksheet>")


def tables(*bodies: str) -> io.BytesIO:
    inside = "".join(f"<table:table>{body}</table:table>" for body in bodies)
    xml = f'<a xmlns:table="{TABLE}" xmlns:office="{OFFICE}">{inside}</a>'
    return archive("content.xml", xml)


def record(kind: int, *values: int) -> bytes:
    body = struct.pack(f"<{len(values)}H", *values)
    return struct.pack("<HH", kind, len(body)) + body


def ole(stream: bytes) -> io.BytesIO:
    """Return an OLE file with a workbook, whose sectors are in reverse order."""
    stream += bytes(-len(stream) % 512 + 4096)
    count = len(stream) // 512
    links = [0xFFFFFFFD, 0xFFFFFFFE, *(0xFFFFFFFE if k == 0 else k + 1 for k in range(count))]
    fat = struct.pack("<128I", *links, *[0xFFFFFFFF] * (128 - len(links)))
    entries = b""
    for name, start, size in (("Root Entry", 0, 0), ("Workbook", 1 + count, len(stream))):
        entries += name.encode("utf-16-le").ljust(116, b"\0") + struct.pack("<IQ", start, size)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(30, b"\0") + struct.pack("<H", 9)
    header = header.ljust(48, b"\0") + struct.pack("<I", 1)
    header = header.ljust(68, b"\0") + struct.pack("<IIII", 0xFFFFFFFE, 0, 0, 0xFFFFFFFF)
    parts = [stream[k : k + 512] for k in range(0, len(stream), 512)]
    content = header.ljust(512, b"\xff") + fat + entries.ljust(512, b"\0") + b"".join(parts[::-1])
    return io.BytesIO(content)


def book(*cells: bytes, sheets: int = 1) -> io.BytesIO:
    """Return a workbook whose sheets share their cells."""
    start = 12 * sheets + 4
    globals_ = record(0x85, start, 0, 0, 0) * sheets + record(0x0A)
    return ole(globals_ + b"".join(cells) + record(0x0A))


FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
WIDE = '<table:table-cell table:number-columns-repeated="1000" office:value="1"/>'
ROWS = '<table:table-row table:number-rows-repeated="1000000">'
EMPTY = '<table:table-cell table:number-columns-repeated="16384"/>'


@pytest.mark.parametrize("content", [
    sheet(f'<row r="1"><c r="A1"><v>1</v></c></row>{FAR}'),
    sheet(FAR.replace("XFD1048576", "xfd1048576")),
    sheet(FAR.replace("<row", "<m:row").replace("<c", "<m:c").replace("<v>", "<m:v>")
          .replace("</row", "</m:row").replace("</c", "</m:c").replace("</v", "</m:v"), "m:"),
    sheet('<row r="1048570"><c><v>1</v></c></row><row><c/><c/><c t="s"><is/></c></row>'),
    tables(f"{ROWS}{WIDE}</table:table-row>"),
    tables(f"{ROWS}{EMPTY}</table:table-row><table:table-row>{WIDE}</table:table-row>"),
    tables(*[f'{ROWS.replace("1000000", "999")}{WIDE}</table:table-row>'] * 3),
    book(record(0x203, 65535, 255, 0, 0, 0, 0, 0)),
    book(record(0xBD, 20000, 0, 0, 0, 0, 0, 0, 0, 0, 200)),
    book(record(0xFD, 65535, 15, 0, 0, 0), sheets=3),
])  # fmt: skip
def test_cells_far_apart_are_refused(content):
    with pytest.raises(ValueError, match="a stray cell"):
        check_workbook(content)


@pytest.mark.parametrize("content", [
    sheet(f'<row r="1"><c r="A1"><v>1</v></c></row>{FAR.replace("<v>1</v>", "")}'),
    sheet('<row r="1048576"><c r="A1048576"><v>1</v></c></row>'),
    tables(f"<table:table-row>{WIDE}</table:table-row>{ROWS}{EMPTY}</table:table-row>"),
    book(record(0x203, 65535, 3, 0, 0, 0, 0, 0), record(0x201, 65535, 255, 0)),
    io.BytesIO(b"text,label\n"),
])  # fmt: skip
def test_formats_of_empty_cells_and_long_tables_are_no_cells_far_apart(content):
    check_workbook(content)
    assert content.tell() == 0


def test_other_content_than_a_sheet_can_have_is_refused():
    with pytest.raises(ValueError, match=r"\.xlsb"):
        check_workbook(archive("a.xml", "<a/>", "xl/Workbook.BIN"))
    with pytest.raises(ValueError, match="a cell is at '1A'"):
        check_workbook(sheet('<row><c r="1A"><v>1</v></c></row>'))
    with pytest.raises(ValueError, match="expands to more than 250 times"):
        check_workbook(archive("a.xml", " " * (40 << 20)))


NAMED = '<row><c t="s"><v>{}</v></c></row>'


@pytest.mark.parametrize("number", ["0", " +0", "000000000000"])
def test_a_long_text_that_many_cells_share_is_refused(number):
    texts = f"<sst><si><t>{'a' * (1 << 20)}</t></si></sst>"
    for count, is_refused in ((5, False), (50, True)):
        cells = f"<worksheet><sheetData>{NAMED.format(number) * count}</sheetData></worksheet>"
        made = archive("xl/worksheets/sheet1.xml", cells)
        with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as more:
            more.writestr("xl/sharedStrings.xml", texts)
        made.seek(0)
        expected = pytest.raises(ValueError, match="its cells hold more than 250 times its size")
        with expected if is_refused else nullcontext():
            check_workbook(made)


def test_a_long_text_that_rows_repeat_is_refused():
    text = f'<text:p xmlns:text="t">{"a" * (1 << 20)}</text:p>'
    repeated = ROWS.replace("1000000", "50")
    with pytest.raises(ValueError, match="its cells hold more than 250 times its size"):
        check_workbook(
            tables(f"{repeated}<table:table-cell>{text}</table:table-cell></table:table-row>")
        )
    blanks = '<text:p xmlns:text="t"><text:s text:c="99000000"/></text:p>'
    with pytest.raises(ValueError, match="its cells hold more than 250 times its size"):
        check_workbook(
            tables(
                f"<table:table-row><table:table-cell>{blanks}</table:table-cell></table:table-row>"
            )
        )


def test_a_panic_of_the_reader_is_one_line(tmp_path, monkeypatch):
    class PanicException(BaseException):
        """As the reader raises it for a date after 10^300 days."""

    def panic(_):
        raise PanicException("out of bounds")

    made = openpyxl.Workbook()
    made.worksheets[0]["A1"] = "text"
    made.save(tmp_path / "a.xlsx")
    monkeypatch.setattr("python_calamine.CalamineWorkbook.from_filelike", panic)
    with pytest.raises(DataError, match="cannot be read as a workbook: out of bounds"):
        read_grid(tmp_path / "a.xlsx", [])


def test_an_archive_that_declares_less_than_it_holds_is_refused():
    content = bytearray(archive("a.xml", " " * (40 << 20)).getvalue())
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 10)
    with pytest.raises(ValueError, match="expands to more than 250 times"):
        check_workbook(io.BytesIO(content))


def test_a_workbook_with_a_stray_cell_gives_one_line_that_says_what_to_do(tmp_path):
    made = openpyxl.Workbook()
    made.worksheets[0]["A1"] = "text"
    made.worksheets[0]["XFD1048576"] = 1
    made.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match=r"a\.xlsx: cannot be read .* 17,179,869,184 cells large"):
        read_grid(tmp_path / "a.xlsx", [])
