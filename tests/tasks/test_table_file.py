"""Tables that commands write."""

from __future__ import annotations

import csv
import datetime
import io
import sys
from decimal import Decimal

import pytest

from representer.data.tables import read_grid
from representer.data.tables.files import unguard_formula
from representer.errors import DataError
from representer.tasks.predictions import as_csv, check_output, shown_cell, write_table


def test_formulas_are_guarded_and_numbers_stay_numbers():
    rows = [["text", "=name()"], ["@SUM(1)", -1.5], ["-ve", "-2e3"], ["+", "a\n=b"]]
    written = list(csv.reader(io.StringIO(as_csv(rows))))
    assert written == [["text", "'=name()"], ["'@SUM(1)", "-1.5"], ["'-ve", "-2e3"], ["+", "a\n=b"]]
    restored = [[unguard_formula(cell) for cell in row] for row in written]
    assert restored == [[str(cell) for cell in row] for row in rows]


CELLS = ["", " ", " a ", "b\t", "a\rb", "c\r", "\nd", "e\r\n", 'say "f"', '"', "g,", "'", "h\u2028"]


def test_cells_with_any_characters_at_any_place_are_read_back(tmp_path):
    rows = [[first, last] for first in CELLS for last in CELLS]
    text = as_csv(rows)
    assert [*csv.reader(io.StringIO(text, newline=""))] == rows
    assert text.startswith(",\n, \n, a \n")
    write_table(tmp_path / "a.csv", [as_csv([["x", "y"]]), text])
    assert read_grid(tmp_path / "a.csv", []).rows == rows
    alone = [[cell] for cell in CELLS]
    assert [*csv.reader(io.StringIO(as_csv(alone), newline=""))] == alone


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime.date(2020, 1, 2), "2020-01-02"), (Decimal("1.50"), "1.50"), (None, ""),
        (True, "true"), (1.5, "1.5"), ([1, "a"], '[1, "a"]'), ("é", "é"),
    ],
)  # fmt: skip
def test_a_cell_of_the_input_is_json_only_if_it_is_a_value_of_json(value: object, written: str):
    assert shown_cell(value) == written


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_all(monkeypatch, is_terminal):
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    stream = Stream()
    monkeypatch.setattr(sys, "stdout", stream)
    write_table(None, ["a,\x1b[2J\n"])
    assert stream.getvalue() == ("a,\\x1b[2J\n" if is_terminal else "a,\x1b[2J\n")


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("text\n")
    for output, problem in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "b.csv", "no such folder"),
        (data, "is the input"),
    ):
        with pytest.raises(DataError, match=problem):
            check_output(output, data)
