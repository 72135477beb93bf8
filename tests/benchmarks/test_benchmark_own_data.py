"""The table of public data sets as a user's own data: sets, columns and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from representer.tasks.comparison import ComparisonTable, Result


@pytest.fixture
def own(bench) -> Any:
    return bench("own_data")


def table(rows: Mapping[str, list[float]], metric: str = "accuracy") -> ComparisonTable:
    """Return the table of five splits with the same losses, each of 20 examples of four kinds."""
    results = {
        name: {k: Result(name, losses * 20, 1.0, 320, name == "counts") for k in range(5)}
        for name, losses in rows.items()
    }

    class Made:
        has_fixed_test = False

    made: Any = Made()
    made.metric = metric
    return ComparisonTable.of(made, results)


def test_the_sentence_counts_sets_by_the_intervals(own):
    above = table({"counts": [1, 1, 0, 0], "network": [1, 0, 0, 0], "both": [1, 0, 0, 0]})
    behind = table({"counts": [0, 0, 0, 0], "network": [1, 1, 0, 0], "both": [1, 0, 0, 0]})
    _, sentence = own.summary({"AG News": above, "Yelp": behind})
    assert "in favor of `both` on 1 of 2 sets. The mean difference is +0.00 points. " in sentence
    assert sentence.endswith("excludes 0 against `both` on Yelp.")
    _, sentence = own.summary({"MUTAG": above})
    assert sentence.endswith("against `both` on none of them.")
    losses = table({"counts": [4.0, 5.0], "both": [1.0, 1.5]}, "rmse")
    _, sentence = own.summary({"ESOL": losses})
    assert "on 1 of 1 sets. The interval" in sentence
    assert own.summary({"MUTAG": table({"counts": [0, 1]})}) == []


def test_a_row_shows_every_column_and_the_paired_differences(own):
    rows = {"counts": [1.0, 1, 0, 0], "kernel": [0.0, 0, 0, 0], "network": [1.0, 0, 0, 0],
            "both": [0.0, 1, 0, 0]}  # fmt: skip
    assert own.cells("toy", table(rows)) == [
        "toy", "counts: 50.0 ± 10.5", "100.0", "75.0 ± 9.1",
        "75.0 ± 9.1", "+25.0 points, +15.9 to +34.1", "-25.0 points, -34.1 to -15.9", "5", "1",
    ]  # fmt: skip
