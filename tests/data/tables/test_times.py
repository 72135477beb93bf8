"""The order of times."""

from __future__ import annotations

from representer.data.tables.columns import Grid
from representer.data.tables.times import sorted_by_time


def test_rows_without_a_time_come_last_and_equal_ones_keep_their_order():
    rows = [[""], ["2024-01-02"], ["2024-01-01"], ["2024-01-02"]]
    grid = Grid(["time"], rows, [2, 3, 4, 5], [], True, False, [])
    assert sorted_by_time([0, 1, 2, 3], grid, 0, "a.csv") == [2, 1, 3, 0]
    assert sorted_by_time([3, 1], grid, 0, "a.csv") == [3, 1]


def test_words_for_a_missing_time_come_last():
    rows = [["2"], ["nan"], ["1"], [float("nan")], ["n/a"], ["0"]]
    grid = Grid(["time"], rows, [*range(2, 8)], [], True, False, [])
    assert sorted_by_time(range(6), grid, 0, "a.csv") == [5, 2, 0, 1, 3, 4]
