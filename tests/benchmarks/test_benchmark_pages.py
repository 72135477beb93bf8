"""The pages of short benchmarks, from times that are written by hand: ratios and verdicts."""

from __future__ import annotations


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
