from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from representer.data.tables import read_grid
from representer.data.tables.columns import Grid
from representer.data.tables.reading import read_delimited
from representer.data.text import read_table
from representer.errors import ArgumentError, DataError


def grid_of(path: Path, content: str, **options) -> Grid:
    path.write_bytes(content.encode())
    (grid,) = read_delimited(path, **{"wanted": ["text"], **options})
    return grid


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.csv"


CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
MANY = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@MANY
@given(data=st.data(), width=st.integers(1, 4), end=st.sampled_from(["\n", "\r\n"]))
def test_files_written_by_csv_round_trip(path, data, width, end):
    row = st.lists(CELLS, min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    grid = grid_of(path, file.getvalue(), header=False)
    assert grid.rows == rows
    assert grid.dropped == []


@MANY
@given(data=st.data(), width=st.integers(2, 4), victim=st.integers(0, 3), cut=st.booleans())
def test_extra_and_missing_cells_do_not_shift_columns(path, data, width, victim, cut):
    cell = st.text("ab ,;'\"\n", min_size=1, max_size=6)
    rows = data.draw(
        st.lists(st.lists(cell, min_size=width, max_size=width), min_size=4, max_size=4)
    )
    if cut and victim and width == 2:
        rows[victim][0] = "a"  # a lone blank cell would read as a blank line
    rows[victim] = rows[victim][:-1] if cut else [*rows[victim], "x"]
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    with pytest.raises(DataError, match=r"too (few|many) cells"):
        grid_of(path, file.getvalue(), header=False, delimiter=",")


REFUSED = {  # content, message
    "a short row": (
        'text,label\n"spans\ntwo",a\nshort\n',
        "line 4: too few cells: 1 instead of 2 as on line 1",
    ),
    "a long row": ("text,label\na,b\nc,d,e\n", "line 3: too many cells: 3 instead of 2"),
    "rows longer than the header": (
        "text,label\n0,a,b\n1,c,d\n", "line 2: too many cells: 3 instead of 2",
    ),
    "an unclosed quote": (
        'text,label\n"a,b\nc,d\n', r"line 2: a quote .* not closed before line 3",
    ),
    "a quote closed later": (
        'text,label\n"a,b\n"c",d\n', r"line 2: something other than ',' follows .* on line 3",
    ),
    "a cell over the limit": (
        "text,label\n" + "x" * 131_073 + ",a\n",
        "line 2: a cell is longer than 131,072 characters",
    ),
    "a header without rows": ("text,label\n", "a header and no documents"),
    "blank lines": ("\n\r\n\n", "only blank lines"),
    "two columns of a name": (
        "text,text\na,b\n", "line 1, column 'text': 2 columns have this name",
    ),
}  # fmt: skip
READ = {  # content, options, columns, rows
    "quotes as ordinary characters": (
        'text,label\n"a,b\nc",d\n', {"quotes": False},
        ["text", "label"], [['"a', "b"], ['c"', "d"]],
    ),
    "a comma inside quotes beside semicolons": (
        '"a, b";c\n"d, e";f\n', {"header": False}, ["1", "2"], [["a, b", "c"], ["d, e", "f"]],
    ),
    "a comma before a semicolon": (
        "text,label\na;b,c\n", {}, ["text", "label"], [["a;b", "c"]],
    ),
    "a nameless column has its number": (
        ",text,label\n0,a,b\n1,c,d\n", {},
        ["1", "text", "label"], [["0", "a", "b"], ["1", "c", "d"]],
    ),
    "numbers despite a header": (
        "text,label\na,b\n", {"wanted": ["1", "2"]}, ["text", "label"], [["a", "b"]],
    ),
    "a header of numbers": (
        "0,1\nsome,words\nother,things\n", {"wanted": ["0", "1"]},
        ["0", "1"], [["some", "words"], ["other", "things"]],
    ),
    "no header, as said": (
        "text,label\na,b\n", {"header": False}, ["1", "2"], [["text", "label"], ["a", "b"]],
    ),
    "a header, as said": ("1,a\n2,b\n", {"header": True}, ["1", "a"], [["2", "b"]]),
    "two columns of a name that is not wanted": (
        "text,E1,label,E1\na,1,b,2\nc,3,d,4\n", {},
        ["text", "E1", "label", "4"], [["a", "1", "b", "2"], ["c", "3", "d", "4"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_damage_is_refused_with_its_line(path, content, message):
    with pytest.raises(DataError, match=message):
        grid_of(path, content)


@pytest.mark.parametrize(("content", "options", "columns", "rows"), READ.values(), ids=READ)
def test_the_columns_and_rows_are_those_of_the_file(path, content, options, columns, rows):
    grid = grid_of(path, content, **options)
    assert (grid.columns, grid.rows) == (columns, rows)


def test_a_quoted_cell_of_a_tsv_file_spans_lines_only_on_request(tmp_path):
    path, content = tmp_path / "a.tsv", 'text\tlabel\n"a\tb\nc"\td\n'
    with pytest.raises(DataError, match=r"line 2: a quoted cell continues to line 3.*quotes=False"):
        grid_of(path, content)
    assert grid_of(path, content, quotes=True).rows == [["a\tb\nc", "d"]]
    assert grid_of(path, content, quotes=False).rows == [['"a', "b"], ['c"', "d"]]


def test_blank_lines_between_rows_and_repeated_headers_are_counted_and_those_at_the_end_are_not(
    path,
):
    grid = grid_of(path, "\ntext,label\na,b\n\n   \nc,d\n\n\n")
    assert grid.rows == [["a", "b"], ["c", "d"]]
    assert [(row.line, row.reason) for row in grid.dropped] == [
        (1, "blank line"), (4, "blank line"), (5, "blank line"),
    ]  # fmt: skip
    grid = grid_of(path, "text,label\na,b\ntext,label\nc,d\n")
    assert grid.lines == [2, 4]
    assert [(row.line, row.reason) for row in grid.dropped] == [(3, "header repeated")]


@pytest.mark.parametrize("mark", ["sep=;\r\n", '"sep=;"\r\n', "SEP=;\n"])
def test_the_separator_that_a_first_line_names_for_excel_is_obeyed(path, mark):
    grid = grid_of(path, f"{mark}label;text\n0;a, b\n")
    assert (grid.columns, grid.rows, grid.lines) == (["label", "text"], [["0", "a, b"]], [3])
    assert (grid.dropped, len(grid.notes)) == ([], 1)


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n"])
def test_an_invalid_delimiter_is_rejected(path, delimiter):
    with pytest.raises(ArgumentError, match="delimiter"):
        grid_of(path, "text\n", delimiter=delimiter)


@pytest.mark.parametrize("wanted", [[], ["E1"], ["2"]])
def test_one_of_two_columns_of_a_name_cannot_be_wanted(path, wanted):
    with pytest.raises(DataError, match="column 'E1': 2 columns have this name"):
        grid_of(path, "text,E1,label,E1\na,1,b,2\nc,3,d,4\n", wanted=wanted, header=True)


def test_a_guess_is_reported(path):
    grid = grid_of(path, 'text;label\n"Hello, world";pos\n')
    assert grid.rows == [["Hello, world", "pos"]]
    assert grid.notes == ["The first line shows that ';' separates the cells."]
    grid = grid_of(path, "text|label\nHello, world|pos\nwell|neg\n")
    assert (grid.columns, grid.rows[0]) == (["text", "label"], ["Hello, world", "pos"])
    tsv = path.with_suffix(".tsv")
    tsv.write_text("text;label\nHello, world;pos\n")
    assert read_grid(tsv, wanted=["text", "label"]).rows == [["Hello, world", "pos"]]
    grid = grid_of(path, '"3","Title","Body"\n"4","Other","Text"\n', wanted=["2", "3", "1"])
    assert (grid.columns, grid.header, len(grid.rows)) == (["1", "2", "3"], False, 2)
    assert "not as a header" in grid.notes[0]
    grid = grid_of(path, "alpha,beta\na,b\nc,d\n", wanted=[])
    assert grid.header
    assert "'alpha', 'beta'" in grid.notes[0]


# Text files are read by their content: lines of fastText, one text a line, or a table.


ROWS = [("good soup", "x"), ("bad; fish, cold", "y"), ("fine bread", "x"), ("old wine", "y")]
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
FASTTEXT = "".join(f"__label__{label} {text}\n" for text, label in ROWS)
TABBED = "".join(f"{text}\t{label}\n" for text, label in ROWS)
COLUMNS = {name: [one[name] for one in RECORDS] for name in ("text", "label")}
SPLIT = {"columns": ["text", "label"], "index": [0, 1, 2, 3], "data": ROWS}
BY_ROW = {name: dict(enumerate(cells)) for name, cells in COLUMNS.items()}
BOOK = openpyxl.Workbook()
for row in (("Reviews of 2024",), (), ("text", "label"), *ROWS):
    BOOK.active.append(row)


@pytest.mark.parametrize(("name", "content"), [
    ("reviews.train", FASTTEXT), ("a.txt", FASTTEXT), ("a.csv", FASTTEXT), ("a.tsv", FASTTEXT),
    ("reviews", f"text\tlabel\n{TABBED}"), ("a.TXT", f"text\tlabel\n{TABBED}"),
    ("a.txt", "text;label\n" + "".join(f'"{text}";{label}\n' for text, label in ROWS)),
    ("a.json", json.dumps(RECORDS)), ("a.json", json.dumps(RECORDS, indent=1)),
    ("a.jsonl", json.dumps(RECORDS)), ("a", json.dumps({"data": RECORDS, "version": 1})),
    ("a.json", json.dumps(COLUMNS)), ("a.json", json.dumps(BY_ROW, indent=2)),
    ("a.json", json.dumps(SPLIT)), ("a.json", json.dumps(dict(enumerate(RECORDS)))),
    ("a.csv", "text|label\n" + "".join(f"{r['text']}|{r['label']}\n" for r in RECORDS)),
])  # fmt: skip
def test_texts_and_labels_are_those_that_were_written(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    table = read_table(tmp_path / name)
    assert (list(zip(table.texts, table.labels, strict=True)), table.dropped) == (ROWS, [])
    assert len({*table.lines}) == len(ROWS)  # predictions are written by line


def test_a_table_without_a_header_or_suffix_has_numbered_columns(tmp_path):
    path = tmp_path / "SMSSpamCollection"
    path.write_text("ham\tSee you\nspam\tA prize, claim it\nham\tOk\nspam\tFree entry\n" * 2)
    table = read_table(path)
    assert (table.text_column, table.label_column, table.labels[1]) == ("2", "1", "spam")


def test_several_labels_of_a_line_are_joined(tmp_path):
    (tmp_path / "a.txt").write_text("__label__b __label__a one two\n__label__a one\n")
    assert read_table(tmp_path / "a.txt").labels == ["b|a", "a"]


def test_plain_lines_are_one_text_each_in_the_column_that_is_wanted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Once, upon a time\n\n there; was\n")
    for wanted in ("text", "review"):
        table = read_table(path, wanted, require_label=False)
        assert (table.texts, table.lines) == (["Once, upon a time", " there; was"], [1, 3])
    path.write_text("smiles\nCCO\n")  # a header
    assert read_grid(path, ["smiles"], header=True).rows == [["CCO"]]
    with pytest.raises(DataError, match="Pass a table with a header, or lines such as __label__"):
        read_table(path)


def test_a_workbook_needs_no_suffix(tmp_path):
    BOOK.save(tmp_path / "book")
    assert read_table(tmp_path / "book").labels == [label for _, label in ROWS]
