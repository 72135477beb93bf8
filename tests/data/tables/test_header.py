from __future__ import annotations

import time

import pytest

from representer.data.tables.columns import has_header
from representer.data.tables.files import WHOLE
from representer.data.tables.reading import read_delimited, read_grid
from representer.errors import DataError

REVIEWS = [[f"review number {i} of many", "pos" if i % 2 else "neg"] for i in range(20)]
CLASSES = [[str(i % 4 + 1), f"title {i}", f"a longer description {i}"] for i in range(20)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["text", "label"], *REVIEWS], True),
        ([["Class Index", "Title", "Description"], *CLASSES], True),
        ([["", "Text", "n"], *CLASSES], True),
        (CLASSES, False),
        (REVIEWS, False),
        ([["text", "pos"], *REVIEWS], False),
        ([["a" * 61, "b"], ["c", "d"]], False),
        ([["a" * 60, "b"], ["c", "d"]], None),
        ([["t", "x"], ["u", "y"], ["v", "x"], ["w", "y"]], False),
        ([["t", "1_0"], ["u", "2"], ["v", "3"]], None),
        ([["two\nlines", "b"], ["c", "d"]], False),
        ([["alpha", "beta"], *REVIEWS], None),
        ([["text", "label"]], None),
        ([["text", "text"], *REVIEWS], None),
        ([["alpha", "1"], ["a", "b"], ["c", "d"]], None),
    ],
)
def test_the_first_row_is_detected_as_header_data_or_unknown(rows, expected):
    assert has_header(rows) is expected


def test_a_repeated_header_is_not_a_class():
    assert has_header([["text", "label"], *REVIEWS, ["text", "label"], *REVIEWS]) is True


def test_a_header_of_thousands_of_columns_is_read_in_linear_time(tmp_path):
    names = ["text", *(f"c{i}" for i in range(64_000)), "c5", "c5"]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join("x" * len(names)) + "\n")
    start = time.process_time()
    columns = read_grid(tmp_path / "a.csv", ["text"]).columns
    assert time.process_time() - start < 2
    assert columns == [*names[:-2], "64002", "64003"]  # a later one of a name has its number


BODY = [("good soup", "x"), ("bad fish", "y"), ("fine bread", "x"), ("old wine", "y")]


@pytest.mark.parametrize(
    ("above", "mark", "names"),
    [
        ("Reviews of 2024\n\n", ",", "text,label"), ("Reviews of 2024,\n,\n", ",", "text,label"),
        ("Reviews, 2024\n", ";", "text;label"), ("# by me\n# and you\n", ",", "Text,Label"),
        ("Reviews of 2024\n", "\t", "review\tstars"), ("Stand 2024;\n", ";", "Kommentar;Note"),
        ("Text\n", ",", "text,label"),
    ],
)  # fmt: skip
def test_a_title_above_the_header_is_left_out(tmp_path, above, mark, names):
    path = tmp_path / ("a.tsv" if mark == "\t" else "a.csv")
    path.write_text(above + names + "".join(f"\n{text}{mark}{label}" for text, label in BODY))
    for header in (None, True):
        (grid,) = read_delimited(path, wanted=[], header=header, size=WHOLE)
        assert (grid.columns, [tuple(row) for row in grid.rows]) == (names.split(mark), BODY)
        assert {row.reason for row in grid.dropped} <= {"above the header", "blank line"}


def test_rows_that_are_no_titles_are_kept_or_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\nhello, world\n")
    with pytest.raises(DataError, match="too many cells: 2 instead of 1 as on line 1"):
        list(read_delimited(path, wanted=[]))
    path.write_text(",text\n0,a\n1,b\n")  # with an index
    (grid,) = read_delimited(path, wanted=[])
    assert (grid.columns, grid.rows) == (["1", "text"], [["0", "a"], ["1", "b"]])
    path.write_text("no label,\na b,x\nc d,y\ne f,x\ng h,y\n")  # of a file without a header
    (grid,) = read_delimited(path, wanted=["1"])
    assert (grid.header, len(grid.rows)) == (False, 5)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("above", ["Export\n", "Export of today\n\nmade by me\n"])
@pytest.mark.parametrize("names", [["foo", "bar"], ["text", "label"]])
def test_a_title_of_one_cell_is_no_header_whatever_the_columns_are_called(
    tmp_path, above, mark, names
):
    path = tmp_path / "a.csv"
    body = "".join(f"\n{text}{mark}{label}" for text, label in BODY)
    path.write_text(above + mark.join(names) + body)
    for header in (None, True):
        (grid,) = read_delimited(path, wanted=[], header=header, size=WHOLE)
        assert (grid.columns, [tuple(row) for row in grid.rows]) == (names, BODY)
    path.write_text(above.rstrip() + body)
    (grid,) = read_delimited(path, wanted=[], size=WHOLE)
    assert (grid.columns, [tuple(row) for row in grid.rows]) == (["1", "2"], BODY)
    with pytest.raises(DataError, match=r"too many cells"):  # since every row is data
        list(read_delimited(path, wanted=[], header=False, delimiter=mark))


def test_texts_with_a_comma_each_below_the_name_of_their_column_are_no_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "hello, world\n" * 5)
    with pytest.raises(DataError, match="too many cells: 2 instead of 1 as on line 1"):
        list(read_delimited(path, wanted=[]))
