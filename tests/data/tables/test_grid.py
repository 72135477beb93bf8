from __future__ import annotations

from representer.data.tables import Dropped, left_out


def test_dropped_rows_are_summarized_by_reason():
    dropped = [Dropped(line, "empty text") for line in (3, 5, 8)] + [Dropped(9, "empty label")]
    assert left_out(dropped, most_lines=2) == (
        "4 rows left out: 3 empty text (lines 3, 5, ...), 1 empty label (line 9)"
    )
    assert left_out([]) == ""
