"""Predictions block by block: every row in order, in memory for two blocks at most."""

from __future__ import annotations

import csv
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from representer.data.tables import Dropped, Grid
from representer.errors import DataError
from representer.report.page import Predictions
from representer.tasks.objects import Objects
from representer.tasks.predictions import predicted_table, write_table


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


def test_at_most_two_blocks_are_in_memory():
    alive: list[weakref.ref[Objects]] = []
    most = 0

    def many() -> Iterator[Objects]:
        nonlocal most
        for number in range(20):
            one = block(number, ["text"])
            alive.append(weakref.ref(one))
            most = max(most, sum(ref() is not None for ref in alive))
            yield one

    assert sum(part.count("\n") for part in table_of(many())) == 21
    assert most <= 2


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
