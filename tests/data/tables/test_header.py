from __future__ import annotations

import time

import pytest

from representer.data.tables.header import has_header
from representer.data.tables.reading import read_grid

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
