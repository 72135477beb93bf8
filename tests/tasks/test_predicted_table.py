"""Predictions block by block: every row in order, in memory for two blocks at most."""

from __future__ import annotations

import csv
import datetime
import io
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from representer.data.tables import Dropped, Grid, read_grid
from representer.data.tables.files import unguard_formula
from representer.errors import DataError
from representer.report.page import Predictions
from representer.tasks.objects import Objects, shown_cell
from representer.tasks.use import as_csv, predicted_table, write_table


def block(first: int, texts: list[str], source: str = "a.csv") -> Objects:
    lines = [*range(first, first + len(texts))]
    table = Grid(["text"], [[text] for text in texts], lines, [], True, True, [])
    kept = [(text, line) for text, line in zip(texts, lines, strict=True) if text]
    dropped = [Dropped(n, "empty text") for n, text in zip(lines, texts, strict=True) if not text]
    objects, own = [text for text, _ in kept], [line for _, line in kept]
    return Objects(source, source, objects, objects, own, dropped=dropped, table=table)


def predict(objects: Objects) -> list[Predictions]:
    lengths = np.array([len(text) for text in objects.objects])
    return [Predictions(lengths % 2, np.eye(2)[lengths % 2])]


def table_of(blocks: Iterator[Objects], output: Path | None = None) -> Iterator[str]:
    def reason(text: str) -> str:
        return "too short" * (len(text) < 2)

    return predicted_table(blocks, predict, reason, [["even", "odd"]], "text", output)


def test_rows_without_a_prediction_keep_their_place_and_are_reported_by_file(capsys):
    parts = [block(2, ["", "b"]), block(4, ["abc", "", "ab"]), block(2, ["abcd", ""], "b.csv")]
    header, *rows = csv.reader("".join(table_of(iter(parts))).splitlines())
    assert header == ["text", "prediction", "probability_even", "probability_odd"]
    shown = [
        ("", ""), ("b", ""), ("abc", "odd"), ("", ""), ("ab", "even"), ("abcd", "even"), ("", ""),
    ]  # fmt: skip
    assert [tuple(row[:2]) for row in rows] == shown
    a, b = capsys.readouterr().err.splitlines()
    assert (
        a == "a.csv: 3 rows without a prediction: 2 empty text (lines 2, 5), 1 too short (line 3)"
    )
    assert b == "b.csv: 1 row without a prediction: 1 empty text (line 3)"


def test_the_file_is_written_at_the_end_or_not_at_all(tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("before")

    def failing() -> Iterator[Objects]:
        yield block(2, ["some text"])
        assert output.read_text() == "before"
        raise DataError("too many cells", file="a.csv", line=9)

    with pytest.raises(DataError, match="too many cells"):
        write_table(output, table_of(failing(), output))
    assert output.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_nothing_is_written_if_no_row_can_be_used(tmp_path):
    with pytest.raises(
        DataError, match=r"none of the 3 texts can be used \(empty text, too short\)"
    ):
        write_table(tmp_path / "out.csv", table_of(iter([block(2, ["", "a", "b"])])))
    assert not list(tmp_path.iterdir())


# Tables that commands write.


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


@pytest.mark.parametrize(("value", "written"), [
    (datetime.date(2020, 1, 2), "2020-01-02"), (Decimal("1.50"), "1.50"), (None, ""),
    (True, "true"), (1.5, "1.5"), ([1, "a"], '[1, "a"]'), ("é", "é"),
])  # fmt: skip
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
