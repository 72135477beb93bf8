from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from representer.data.tables.columns import Grid
from representer.data.tables.reading import read_delimited
from representer.errors import ArgumentError, DataError


def grid_of(path: Path, content: str, **options) -> Grid:
    path.write_bytes(content.encode())
    (grid,) = read_delimited(path, **{"wanted": ["text"], **options})
    return grid


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.csv"


CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), width=st.integers(1, 4), end=st.sampled_from(["\n", "\r\n"]))
def test_files_written_by_csv_round_trip(path, data, width, end):
    row = st.lists(CELLS, min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    grid = grid_of(path, file.getvalue(), header=False)
    assert grid.rows == rows
    assert grid.dropped == []


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_the_line_of_a_row_is_its_first_line_in_the_file(path, data):
    cell = st.text("ab\n\r", max_size=5)
    rows = data.draw(st.lists(st.lists(cell, min_size=2, max_size=2), min_size=1, max_size=6))
    expected, content = [], ""
    for row in rows:
        expected.append(len(content.replace("\r\n", "\n").replace("\r", "\n").split("\n")))
        content += ",".join(f'"{value}"' for value in row) + "\n"
    assert grid_of(path, content, header=False, quotes=True).lines == expected


def test_a_short_row_is_rejected_with_line_and_counts(path):
    content = 'text,label\n"spans\ntwo",a\nshort\n'
    with pytest.raises(DataError, match="line 4: too few cells: 1 instead of 2 as on line 1"):
        grid_of(path, content)


def test_a_long_row_is_rejected_with_line_and_counts(path):
    with pytest.raises(DataError, match="line 3: too many cells: 3 instead of 2"):
        grid_of(path, "text,label\na,b\nc,d,e\n")


def test_rows_that_are_all_longer_than_the_header_are_rejected(path):
    with pytest.raises(DataError, match="line 2: too many cells: 3 instead of 2"):
        grid_of(path, "text,label\n0,a,b\n1,c,d\n")


def test_an_unclosed_quote_is_rejected_with_its_line(path):
    with pytest.raises(DataError, match=r"line 2: a quote .* not closed before line 3"):
        grid_of(path, 'text,label\n"a,b\nc,d\n')
    with pytest.raises(DataError, match=r"line 2: something other than ',' follows .* on line 3"):
        grid_of(path, 'text,label\n"a,b\n"c",d\n')


def test_a_cell_over_the_limit_is_rejected_with_its_line(path):
    with pytest.raises(DataError, match="line 2: a cell is longer than 131,072 characters"):
        grid_of(path, "text,label\n" + "x" * 131_073 + ",a\n")


def test_quotes_can_be_ordinary_characters(path):
    grid = grid_of(path, 'text,label\n"a,b\nc",d\n', quotes=False)
    assert grid.rows == [['"a', "b"], ['c"', "d"]]


def test_a_quoted_cell_of_a_tsv_file_spans_lines_only_on_request(tmp_path):
    path, content = tmp_path / "a.tsv", 'text\tlabel\n"a\tb\nc"\td\n'
    with pytest.raises(DataError, match=r"line 2: a quoted cell continues to line 3.*quotes=False"):
        grid_of(path, content)
    assert grid_of(path, content, quotes=True).rows == [["a\tb\nc", "d"]]
    assert grid_of(path, content, quotes=False).rows == [['"a', "b"], ['c"', "d"]]


def test_blank_lines_between_rows_are_counted_and_those_at_the_end_are_not(path):
    grid = grid_of(path, "\ntext,label\na,b\n\n   \nc,d\n\n\n")
    assert grid.rows == [["a", "b"], ["c", "d"]]
    assert [(row.line, row.reason) for row in grid.dropped] == [
        (1, "blank line"),
        (4, "blank line"),
        (5, "blank line"),
    ]


def test_a_repeated_header_is_dropped_and_reported(path):
    grid = grid_of(path, "text,label\na,b\ntext,label\nc,d\n")
    assert grid.lines == [2, 4]
    assert [(row.line, row.reason) for row in grid.dropped] == [(3, "header repeated")]


def test_a_semicolon_is_recognized_and_reported(path):
    grid = grid_of(path, 'text;label\n"Hello, world";pos\n')
    assert grid.rows == [["Hello, world", "pos"]]
    assert grid.notes == ["The first line shows that ';' separates the cells."]


@pytest.mark.parametrize("mark", ["sep=;\r\n", '"sep=;"\r\n', "SEP=;\n"])
def test_the_separator_that_a_first_line_names_for_excel_is_obeyed(path, mark):
    grid = grid_of(path, f"{mark}label;text\n0;a, b\n")
    assert (grid.columns, grid.rows, grid.lines) == (["label", "text"], [["0", "a, b"]], [3])
    assert (grid.dropped, len(grid.notes)) == ([], 1)


def test_a_comma_inside_quotes_does_not_hide_the_semicolon(path):
    grid = grid_of(path, '"a, b";c\n"d, e";f\n', header=False)
    assert grid.rows == [["a, b", "c"], ["d, e", "f"]]


def test_a_comma_takes_precedence_over_a_semicolon(path):
    assert grid_of(path, "text,label\na;b,c\n").rows == [["a;b", "c"]]


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n"])
def test_an_invalid_delimiter_is_rejected(path, delimiter):
    with pytest.raises(ArgumentError, match="delimiter"):
        grid_of(path, "text\n", delimiter=delimiter)


def test_a_header_without_rows_is_rejected(path):
    with pytest.raises(DataError, match="a header and no documents"):
        grid_of(path, "text,label\n")


def test_a_file_of_blank_lines_is_rejected(path):
    with pytest.raises(DataError, match="only blank lines"):
        grid_of(path, "\n\r\n\n")


def test_duplicate_names_in_the_header_are_rejected(path):
    with pytest.raises(DataError, match=r"line 1, column 'text': 2 columns have this name"):
        grid_of(path, "text,text\na,b\n")


def test_duplicate_names_of_columns_that_are_not_wanted_are_numbered(path):
    content = "text,E1,label,E1\na,1,b,2\nc,3,d,4\n"
    assert grid_of(path, content, wanted=["text"]).columns == ["text", "E1", "label", "4"]
    for wanted in ([], ["E1"], ["2"]):
        with pytest.raises(DataError, match="column 'E1': 2 columns have this name"):
            grid_of(path, content, wanted=wanted, header=True)


def test_a_column_without_a_name_is_named_by_its_number(path):
    assert grid_of(path, ",text,label\n0,a,b\n1,c,d\n").columns == ["1", "text", "label"]


def test_columns_of_a_file_without_a_header_are_numbered(path):
    grid = grid_of(path, '"3","Title","Body"\n"4","Other","Text"\n', wanted=["2", "3", "1"])
    assert (grid.columns, grid.header, len(grid.rows)) == (["1", "2", "3"], False, 2)
    assert "not as a header" in grid.notes[0]


def test_columns_can_be_requested_by_number_despite_a_header(path):
    grid = grid_of(path, "text,label\na,b\n", wanted=["1", "2"])
    assert (grid.columns, len(grid.rows)) == (["text", "label"], 1)


def test_names_in_a_header_can_be_numbers(path):
    grid = grid_of(path, "0,1\nsome,words\nother,things\n", wanted=["0", "1"])
    assert (grid.columns, len(grid.rows)) == (["0", "1"], 2)


def test_an_ambiguous_header_is_assumed_and_reported(path):
    grid = grid_of(path, "alpha,beta\na,b\nc,d\n", wanted=[])
    assert grid.header
    assert "'alpha', 'beta'" in grid.notes[0]


def test_the_header_option_takes_precedence(path):
    content = "text,label\na,b\n"
    assert grid_of(path, content, header=False).rows == [["text", "label"], ["a", "b"]]
    assert grid_of(path, "1,a\n2,b\n", header=True).columns == ["1", "a"]
