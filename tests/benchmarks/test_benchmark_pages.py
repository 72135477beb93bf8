"""The pages of short benchmarks, from times that are written by hand: ratios and verdicts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("ours", "ratio", "verdict"), [(20.0, "2.00", "met"), (50.0, "0.80", "missed")]
)
def test_an_epoch_is_compared_with_the_lstm(bench, ours, ratio, verdict):
    epoch = bench("epoch")
    seconds = {epoch.THEIRS: 40.0, epoch.OURS: ours}
    taken = epoch.Epoch(64, 2, 312, seconds, {epoch.THEIRS: 1.5, epoch.OURS: 1.25}, "1.00")
    page = epoch.page([taken], 1, ("0", "0"))
    row = f"| 2 | 64 | 312 | 40.0 | {ours:.1f} | {ratio} | 1.50, 1.25 | 1.00 | {verdict} |"
    assert row in page
    assert "not to be quoted" not in page
    assert "A trial on 0.05 of the documents" in epoch.page([taken], 0.05, ("0", "0"))


@pytest.mark.parametrize(("seconds", "wall", "verdict"), [(0.004, 45, "met"), (0.03, 75, "missed")])
def test_goals_of_loading_and_building_are_upper_limits(bench, seconds, wall, verdict):
    start = bench("start")
    times = {"loading the core alone": [seconds, seconds / 2, 9.0], "x": [0.001, 0.002, 0.004]}
    page = start.page(times, 3 * 2**20, (wall, 77.0), ("0", "0"))
    assert f"under 20 ms: {verdict}, {1000 * seconds:.1f} ms (3.0 MiB)." in page
    assert f"on two cores: {verdict}, {wall} s by the wall" in page
    assert "| x | 2.0 | 1.0 – 4.0 |" in page


def test_the_page_of_exports_has_the_largest_difference_of_every_format(bench):
    export = bench("export")
    assert export.shown(export.Parity(2, 5, 3.44e-7)) == "3e-7"
    assert export.shown(export.Parity(2, 5, 0.0)) == "0"
    row = ["LSTM", *"000", "3e-7", "2e-7", "1e-7", *["4e-3"] * 3]
    times, scores = ["texts", *["1.00"] * 9], ["both", "90.00", "90.00", "89.50", "0.50"]
    parts = export.page([row], [times], 500, [scores])
    assert "| LSTM | 0 | 0 | 0 | 3e-7 | 2e-7 | 1e-7 | 4e-3 | 4e-3 | 4e-3 |" in parts[1]
    assert "400 lines of code" in parts[4]
    assert "| both | 90.00 | 90.00 | 89.50 | 0.50 |" in parts[5]
