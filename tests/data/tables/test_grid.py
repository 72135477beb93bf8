from __future__ import annotations

from representer.data.tables import Dropped, left_out


def test_dropped_rows_are_summarized_by_reason():
    dropped = [Dropped(line, "empty text") for line in (3, 5, 8, 9, 10, 12)] + [
        Dropped(13, "empty label")
    ]
    assert left_out(dropped) == (
        "7 rows left out: 6 empty text (lines 3, 5, 8, 9, 10, ...), 1 empty label (line 13)"
    )
    assert left_out([]) == ""
