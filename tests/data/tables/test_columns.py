"""Columns of a table: names, roles, labels and suggestions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from representer.data.tables import Dropped, LabelMap, left_out, split
from representer.data.tables.columns import (
    Grid,
    alike,
    group_names,
    guess_label,
    guess_text,
    has_header,
    ignored_split,
    remarks,
    requested,
    resolve,
)
from representer.data.tables.files import WHOLE, did_you_mean, guard_formula, listing
from representer.data.tables.reading import read_delimited, read_grid
from representer.errors import ArgumentError, DataError


def grid(columns: list[str], rows: list[list[object]], *, numbered: bool = True) -> Grid:
    return Grid(columns, rows, list(range(len(rows))), [], True, numbered, [])


def reviews(*columns: str) -> Grid:
    """Return three columns: long text, class, number."""
    rows = [[f"a review of some length {i}", "pn"[i % 2], str(i)] for i in range(10)]
    return grid(list(columns), rows)


def test_names_are_separated_by_commas():
    assert requested("title, body") == ["title", "body"]
    assert requested(None) == []


def test_a_column_is_found_by_name_by_number_and_by_a_name_with_a_comma():
    table = reviews("a", "b,c", "d")
    assert resolve(table, "d,a", "text", "f") == [2, 0]
    assert resolve(table, "b,c", "text", "f") == [1]
    assert resolve(table, "3,1", "text", "f") == [2, 0]
    assert resolve(reviews("3", "a", "b"), "3", "text", "f") == [0]


def test_groups_are_named_by_one_or_more_columns_in_the_order_of_the_lines():
    table = grid(["who", "when", "text"], [["a ", 1, "x"], ["b", "", "y"], [None, 2, "z"]])
    assert group_names(table, "who", "f", [1, 0, 2]) == ["b", "a", ""]
    assert group_names(table, "who,when", "f", [0, 1, 2]) == ["a, 1", "", ""]
    assert group_names(table, None, "f", [0, 1, 2]) == []
    with pytest.raises(DataError, match=r"no column 'whom'.*Did you mean 'who'"):
        group_names(table, "whom", "f", [0])
    with pytest.raises(ArgumentError, match="columns other than those of objects and labels"):
        group_names(table, "text", "f", [0], taken=[2])


@pytest.mark.parametrize("number", ["0", "4", "9" * 5000])
def test_a_number_out_of_range_is_rejected(number):
    with pytest.raises(DataError, match="the file has 3"):
        resolve(reviews("a", "b", "c"), number, "text", "f")


def test_numbers_are_names_if_columns_have_no_positions():
    with pytest.raises(DataError, match="no column '1'"):
        resolve(grid(["a"], [["x"]], numbered=False), "1", "text", "f")


def made(columns: str, row: Callable[[int], list[object]], count: int = 20) -> Grid:
    return grid(columns.split(), [row(i) for i in range(count)])


@pytest.mark.parametrize(("table", "count", "found"), [
    *((reviews("x", "label", name), 1, 2)
      for name in ("text", "Text", "REVIEW", "review text", "title")),
    (reviews("review", "label", "text"), 1, 2), (reviews("x", "y", "z"), None, 0),
    (reviews("review", "label", "body"), 1, r"'review', 'body'.*text=\"review\""),
    (made("x y", lambda i: [f"question {i}", f"answers {i}"]), None, "equally long"),
    (made("x y", lambda i: [f"a{i:07d}", f"b{i:05d}"]), None, "equally long"),
    (made("x y", lambda i: [f"a{i:07d}", f"b{i:04d}"]), None, 0),
    (made("x y", lambda i: [f"{i:08d}", f"a{i:05d}"]), None, 1),
    (made("x y", lambda i: [f"{i:08d}", f"{i / 7}"]), None, "numbers only in 'x', 'y'"),
    (made("x y z", lambda i: [f"{i}", f"{i / 7}", "ab"[i % 2]]), None, "numbers only in 'x', 'y'"),
    (made("x y", lambda i: [f"bad {i}", ["very positive", "negative"][i % 2]], 10), None, 0),
])  # fmt: skip
def test_the_text_has_a_common_name_or_is_the_longest(table, count, found):
    if isinstance(found, int):
        assert guess_text(table, count, "f") == found
    else:
        with pytest.raises(DataError, match=found):
            guess_text(table, count, "f")


@pytest.mark.parametrize(("table", "text", "required", "found"), [
    *((reviews("text", "x", name), 0, False, 2)
      for name in ("label", "Class Index", "stars", "sentiment")),
    (reviews("text", "category", "label"), 0, True, 2), (reviews("text", "u", "v"), 0, True, 1),
    (reviews("text", "u", "v"), 0, False, None),
    (reviews("text", "category", "topic"), 0, True, r"'category', 'topic'.*label=\"category\""),
    (made("text u v", lambda i: [f"a text {i}", i % 2, i % 3]), 0, True,
     r"several columns could be the label \('u', 'v'\)"),
    (made("text cell_type v", lambda i: [f"a text {i}", i % 2, i % 3]), 0, True,
     r"could be the label \('cell_type', 'v'\)"),
    (made("text u v", lambda i: [f"a text {i}", str(i), f"{i}th"]), 0, True, "no column looks"),
    (made("id text x", lambda i: [i % 2, f"a text {i}", f"{i % 3}"]), 1, True, 2),
    (made("text u v", lambda i: [f"a text {i}", i % 10, i]), 0, True, 1),
    (made("text u v", lambda i: [f"a text {i}", i % 11, i]), 0, True, "no column looks like"),
])  # fmt: skip
def test_the_label_has_a_common_name_or_few_values(table, text, required, found):
    if isinstance(found, str):
        with pytest.raises(DataError, match=found):
            guess_label(table, [text], "f", required=required)
    else:
        assert guess_label(table, [text], "f", required=required) == found


@pytest.mark.parametrize(("cells", "is_named"), [
    (["train", "val", "Test", ""], True), (["train", "train", "train", "train"], False),
    (["train", "test", "tram", "test"], False), (["x", "train", "test", "val"], False),
    (["training", "testing", "testing", "training"], True), ([True, False, False, True], True),
    ([1, 2, 3, 4], False),
])  # fmt: skip
def test_a_column_of_parts_is_named_as_ignored(cells, is_named):
    rows = [["some text", "a", cell] for cell in cells]
    grid = Grid(["text", "label", "split"], rows, [1, 2, 3, 4], [], True, False, [])
    notes = ignored_split(grid)
    assert bool(notes) == is_named
    assert not is_named or "Column 'split' is ignored" in notes[0]


def test_dropped_rows_are_summarized_by_reason():
    dropped = [Dropped(line, "empty text") for line in (3, 5, 8, 9, 10, 12)] + [
        Dropped(13, "empty label")
    ]
    assert left_out(dropped) == (
        "7 rows left out: 6 empty text (lines 3, 5, 8, 9, 10, ...), 1 empty label (line 13)"
    )
    assert left_out([]) == ""


REVIEWS = [[f"review number {i} of many", "pos" if i % 2 else "neg"] for i in range(20)]
CLASSES = [[str(i % 4 + 1), f"title {i}", f"a longer description {i}"] for i in range(20)]


@pytest.mark.parametrize(("rows", "expected"), [
    ([["text", "label"], *REVIEWS], True),
    ([["Class Index", "Title", "Description"], *CLASSES], True),
    ([["", "Text", "n"], *CLASSES], True), (CLASSES, False), (REVIEWS, False),
    ([["text", "pos"], *REVIEWS], False), ([["a" * 61, "b"], ["c", "d"]], False),
    ([["a" * 60, "b"], ["c", "d"]], None),
    ([["t", "x"], ["u", "y"], ["v", "x"], ["w", "y"]], False),
    ([["t", "1_0"], ["u", "2"], ["v", "3"]], None), ([["two\nlines", "b"], ["c", "d"]], False),
    ([["alpha", "beta"], *REVIEWS], None), ([["text", "label"]], None),
    ([["text", "text"], *REVIEWS], None), ([["alpha", "1"], ["a", "b"], ["c", "d"]], None),
])  # fmt: skip
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


@pytest.mark.parametrize(("above", "mark", "names"), [
    ("Reviews of 2024\n\n", ",", "text,label"), ("Reviews of 2024,\n,\n", ",", "text,label"),
    ("Reviews, 2024\n", ";", "text;label"), ("# by me\n# and you\n", ",", "Text,Label"),
    ("Reviews of 2024\n", "\t", "review\tstars"), ("Stand 2024;\n", ";", "Kommentar;Note"),
    ("Text\n", ",", "text,label"),
])  # fmt: skip
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


def test_long_names_and_long_lists_are_truncated():
    assert listing(["a", "b"]) == "'a', 'b'"
    assert listing(["x" * 50]) == f"'{'x' * 37}...'"
    assert listing(list("abcde"), most=2) == "'a', 'b' and 3 more"


def test_the_closest_choice_is_suggested_ignoring_case():
    assert did_you_mean("lable", ["Text", "Label"]) == "Did you mean 'Label'? "
    assert did_you_mean("zebra", ["Text", "Label"]) == ""


def test_the_time_of_a_suggestion_is_bounded():
    """Texts are compared in time quadratic in their length."""
    long = ["ab" * 20_000 + str(i) for i in range(100)]
    start = time.process_time()
    assert did_you_mean("ba" * 20_000, [*long, "label"]) == ""
    assert did_you_mean("lable", [*long, "label"]) == "Did you mean 'label'? "
    assert time.process_time() - start < 1


def test_classes_are_sorted_numerically_if_they_are_integers():
    assert LabelMap.build(["b", "a", "b"]).names == ("a", "b")
    assert LabelMap.build(["10", "9", "-1"]).names == ("-1", "9", "10")
    assert LabelMap.build(["10", "9", "x"]).names == ("10", "9", "x")
    assert LabelMap.build(["١", "2"]).names == ("2", "١")


def test_a_label_is_encoded_as_its_position():
    labels = LabelMap(("neg", "pos"))
    assert [labels.encode(name) for name in ("pos", "neg")] == [1, 0]
    assert len(labels) == 2


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a", "")])
def test_empty_and_duplicate_names_are_rejected(names):
    with pytest.raises(ArgumentError, match="distinct names"):
        LabelMap(names)


def test_a_guarded_label_is_recognized():
    labels = LabelMap(("-ve", "=x", "+"))
    assert [labels.encode(guard_formula(name)) for name in labels.names] == [0, 1, 2]
    assert LabelMap(("=x", "'=x")).encode("'=x") == 1  # an exact name comes first


def test_classes_that_are_words_for_a_missing_value_are_noted():
    (note,) = remarks(["good", "N/A", "bad", "nan", "", None, "N/A"])
    assert note.startswith("'N/A', 'nan': taken as a class; leave the cell empty")
    assert remarks(["good", "bad", None, 1]) == []
    assert len(remarks(["Null", "null"])) == 2


def test_labels_that_differ_in_case_or_blanks_alone_are_noted():
    assert alike(["neg", "Pos", "pos"]).startswith("The classes 'Pos' and 'pos' differ in case")
    assert alike(["a", "a "])
    assert alike(["a", "b", 1, None, "A1"]) == ""


# .


FRACTIONS = st.sampled_from([(0.9, 0.1), (0.8, 0.1, 0.1), (0.5, 0.5), (0.2, 0.8), (1.0,)])


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    fractions=FRACTIONS,
    seed=st.integers(0, 100),
)
def test_parts_are_disjoint_complete_and_have_the_classes_in_proportion(sizes, fractions, seed):
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    try:
        result = split(labels, fractions, seed)
    except DataError:
        assume(False)
        raise
    assert sorted(chain.from_iterable(result)) == list(range(len(labels)))
    totals = Counter(labels)
    for part, fraction in zip(result, fractions, strict=True):
        assert part == sorted(part)
        counts = Counter(labels[position] for position in part)
        for label, total in totals.items():
            assert abs(counts[label] - total * fraction) <= 2
    assert {labels[position] for position in result.parts[0]} == set(labels)


def test_many_classes_with_one_document_do_not_change_the_fractions_of_others():
    labels = [f"single {i}" for i in range(500)] + ["big"] * 100
    train, valid = split(labels, (0.5, 0.5), seed=0)
    assert abs(Counter(labels[i] for i in train)["big"] - 50) <= 1
    assert {labels[i] for i in valid} == {"big"}


def test_classes_with_one_document_do_not_affect_later_assignments():
    labels = [f"{i:02} {kind}" for i in range(10) for kind in "aaaaabcccc"]
    train, valid = split(labels, (0.9, 0.1), seed=0)
    assert abs(len(valid) - 9) <= 1
    assert sum(labels[i].endswith("b") for i in train) == 10


def test_a_class_with_one_document_goes_to_training_and_is_reported():
    labels = ["a"] * 20 + ["b"] + ["c"] * 20
    result = split(labels, (0.8, 0.2), seed=3)
    assert 20 in result.parts[0]
    assert result.notes == ("Class 'b' has 1 row, in training; none of it is in part 2.",)


def test_training_has_every_class_for_any_fraction():
    labels = [str(number) for number in range(30)] * 2
    train, valid = split(labels, (0.1, 0.9), seed=0)
    assert {labels[i] for i in train} == set(labels)
    assert len(valid) == 30


def test_the_seed_determines_the_assignment():
    labels = ["a", "b"] * 50
    assert split(labels, (0.8, 0.2), 1).parts == split(labels, (0.8, 0.2), 1).parts
    assert split(labels, (0.8, 0.2), 1).parts != split(labels, (0.8, 0.2), 2).parts
    assert len(split(labels, (0.8, 0.2), 1)) == 2


@pytest.mark.parametrize("fractions", [(), (0.5, 0.4), (1.2, -0.2), (1.0, 0.0), (float("nan"), 1)])
def test_invalid_fractions_are_rejected(fractions):
    with pytest.raises(ArgumentError, match="sum to 1"):
        split(["a", "b"], fractions, 0)


def test_too_few_documents_are_rejected():
    with pytest.raises(DataError, match=r"2 rows cannot be divided .*: 2 \+ 0"):
        split(["a", "a"], (0.9, 0.1), 0)


@given(
    labels=st.lists(st.sampled_from("abc"), min_size=30, max_size=80),
    different=st.integers(15, 200),
    seed=st.integers(0, 100),
)
def test_equal_documents_are_in_one_part_and_without_any_the_split_is_as_ever(
    labels, different, seed
):
    digests = np.random.default_rng(seed).integers(different, size=len(labels))
    parts = split(labels, (0.6, 0.2, 0.2), seed, digests).parts
    assert sorted(chain.from_iterable(parts)) == list(range(len(labels)))
    kinds = [set(digests[part].tolist()) for part in parts]
    assert sum(map(len, kinds)) == len(set(digests.tolist()))
    alone = split(labels, (0.6, 0.2, 0.2), seed)
    assert split(labels, (0.6, 0.2, 0.2), seed, np.arange(len(labels)) * 7).parts == alone.parts
