"""Interleaved timing."""

from __future__ import annotations

import time

import pytest

from representer.errors import ArgumentError
from representer.tasks.bench_cells import Case, Timing, compare, table


def test_each_round_runs_every_case_once_and_starts_with_another():
    calls: list[str] = []
    cases = [Case(name, lambda name=name: calls.append(name)) for name in "abc"]
    compare(cases, repeats=3, warm_ups=0)
    assert calls == list("abc" + "bca" + "cab")


def test_the_ratio_is_to_the_first_case():
    fast, slow = Case("fast", lambda: time.sleep(0.002)), Case("slow", lambda: time.sleep(0.02))
    first, second = compare([fast, slow], repeats=3, warm_ups=0)
    assert first.ratio == 1.0
    assert second.ratio > 3
    assert second.low <= second.median <= second.high


def test_the_table_names_what_the_ratio_is_to():
    text = table([Timing("base", 0.1, 0.09, 0.11, 1.0), Timing("other", 0.2, 0.19, 0.21, 2.0)])
    assert "time by that of base" in text
    assert "| other | 200.0 | 190.0 – 210.0 | 2.00 |" in text


@pytest.mark.parametrize(("cases", "repeats"), [([], 3), ([Case("a", int)], 0)])
def test_nothing_to_time_is_refused(cases, repeats):
    with pytest.raises(ArgumentError):
        compare(cases, repeats)
