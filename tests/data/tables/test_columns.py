from __future__ import annotations

import pytest

from representer.data.tables.columns import (
    Grid,
    group_names,
    guess_label,
    guess_text,
    ignored_split,
    requested,
    resolve,
)
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


def test_the_error_for_a_missing_column_lists_the_columns():
    with pytest.raises(DataError) as error:
        resolve(reviews("text", "label", "id"), "lable", "label", "f.csv")
    assert str(error.value) == (
        "f.csv: there is no column 'lable'; the columns are 'text', 'label', 'id'. "
        "Did you mean 'label'? Pass label= one of them."
    )


@pytest.mark.parametrize("number", ["0", "4", "9" * 5000])
def test_a_number_out_of_range_is_rejected(number):
    with pytest.raises(DataError, match="the file has 3"):
        resolve(reviews("a", "b", "c"), number, "text", "f")


def test_numbers_are_names_if_columns_have_no_positions():
    with pytest.raises(DataError, match="no column '1'"):
        resolve(grid(["a"], [["x"]], numbered=False), "1", "text", "f")


@pytest.mark.parametrize("name", ["text", "Text", "REVIEW", "review text", "title"])
def test_a_common_name_is_the_text(name):
    assert guess_text(reviews("x", "label", name), 1, "f") == 2


def test_text_and_label_take_precedence_over_other_common_names():
    assert guess_text(reviews("review", "label", "text"), 1, "f") == 2
    assert guess_label(reviews("text", "category", "label"), [0], "f", required=True) == 2


def test_two_common_names_are_ambiguous():
    with pytest.raises(DataError, match=r"'review', 'body'.*text=\"review\""):
        guess_text(reviews("review", "label", "body"), 1, "f")
    with pytest.raises(DataError, match=r"'category', 'topic'.*label=\"category\""):
        guess_label(reviews("text", "category", "topic"), [0], "f", required=True)


def test_the_longest_column_is_the_text_without_common_names():
    assert guess_text(reviews("x", "y", "z"), None, "f") == 0


def test_two_columns_of_equal_length_are_ambiguous():
    rows: list[list[object]] = [[f"question {i}", f"answers {i}"] for i in range(10)]
    with pytest.raises(DataError, match="equally long"):
        guess_text(grid(["x", "y"], rows), None, "f")


def test_a_long_class_name_is_not_the_text():
    rows: list[list[object]] = [
        [f"bad {i}", ["very positive", "negative"][i % 2]] for i in range(10)
    ]
    assert guess_text(grid(["x", "y"], rows), None, "f") == 0


@pytest.mark.parametrize("name", ["label", "Class Index", "stars", "sentiment"])
def test_a_common_name_is_the_label(name):
    assert guess_label(reviews("text", "x", name), [0], "f", required=False) == 2


def test_the_column_with_few_values_is_the_label_without_common_names():
    assert guess_label(reviews("text", "u", "v"), [0], "f", required=True) == 1


def test_two_columns_with_few_values_are_ambiguous():
    rows: list[list[object]] = [[f"a text {i}", i % 2, i % 3] for i in range(20)]
    with pytest.raises(DataError, match=r"several columns could be the label \('u', 'v'\)"):
        guess_label(grid(["text", "u", "v"], rows), [0], "f", required=True)


def test_no_column_with_few_values_is_rejected():
    rows: list[list[object]] = [[f"a text {i}", str(i), f"{i}th"] for i in range(20)]
    with pytest.raises(DataError, match="no column looks like a label"):
        guess_label(grid(["text", "u", "v"], rows), [0], "f", required=True)


def test_identifiers_are_not_inferred_as_labels():
    rows: list[list[object]] = [[i % 2, f"a text {i}", f"{i % 3}"] for i in range(20)]
    assert guess_label(grid(["id", "text", "x"], rows), [1], "f", required=True) == 2


def test_an_optional_label_is_not_inferred_from_values():
    assert guess_label(reviews("text", "u", "v"), [0], "f", required=False) is None


def test_a_column_of_three_quarters_of_the_length_is_about_equally_long():
    rows: list[list[object]] = [[f"{i:08d}", f"{i:06d}"] for i in range(10)]
    with pytest.raises(DataError, match="equally long"):
        guess_text(grid(["x", "y"], rows), None, "f")
    assert guess_text(grid(["x", "y"], [[a, str(b)[:5]] for a, b in rows]), None, "f") == 0


def test_a_value_for_every_second_row_is_few():
    rows: list[list[object]] = [[f"a text {i}", i % 10, i] for i in range(20)]
    assert guess_label(grid(["text", "u", "v"], rows), [0], "f", required=True) == 1
    rows = [[f"a text {i}", i % 11, i] for i in range(20)]
    with pytest.raises(DataError, match="no column looks like a label"):
        guess_label(grid(["text", "u", "v"], rows), [0], "f", required=True)


@pytest.mark.parametrize(
    ("cells", "is_named"),
    [
        (["train", "val", "Test", ""], True),
        (["train", "train", "train", "train"], False),
        (["train", "test", "tram", "test"], False),
        (["x", "train", "test", "val"], False),
        (["training", "testing", "testing", "training"], True),
        ([True, False, False, True], True),
        ([1, 2, 3, 4], False),
    ],
)
def test_a_column_of_parts_is_named_as_ignored(cells, is_named):
    rows = [["some text", "a", cell] for cell in cells]
    grid = Grid(["text", "label", "split"], rows, [1, 2, 3, 4], [], True, False, [])
    notes = ignored_split(grid)
    assert bool(notes) == is_named
    assert not is_named or "Column 'split' is ignored" in notes[0]
