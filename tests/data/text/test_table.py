from __future__ import annotations

import pytest

from representer.data.tables import Dropped, left_out
from representer.data.text import Table, check_labels
from representer.errors import DataError


def table(labels: list[str] | None, dropped: list[Dropped] | None = None) -> Table:
    texts = ["words"] * (len(labels) if labels else 3)
    lines = list(range(len(texts)))
    columns, label = ["t", "l"], "l" if labels else None
    return Table(texts, labels, lines, columns, "t", label, dropped or [], "f.csv")


def test_the_classes_are_counted_most_frequent_first():
    assert list(check_labels(table(["a", "b", "b"])).items()) == [("b", 2), ("a", 1)]


def test_one_class_is_rejected():
    with pytest.raises(DataError, match=r"f\.csv, column 'l': all 2 documents have the label 'a'"):
        check_labels(table(["a", "a"]))


def test_the_error_without_labels_lists_the_columns():
    with pytest.raises(DataError, match="no label column; the columns are 't', 'l'"):
        check_labels(table(None))


def test_dropped_rows_are_summarized_by_reason():
    dropped = [Dropped(line, "empty text") for line in (3, 5, 8)] + [Dropped(9, "empty label")]
    assert left_out(dropped, most_lines=2) == (
        "4 rows left out: 3 empty text (lines 3, 5, ...), 1 empty label (line 9)"
    )
    assert left_out([]) == ""
