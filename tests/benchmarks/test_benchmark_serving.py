"""Tests of the load on a server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_page_has_every_request(bench, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "serving.md"
    words = ["serving.py", "--seconds", "2", "--rate", "20", "--full", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    bench("serving").main()
    rows = [line for line in out.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[2:4] for row in rows[:2]] == [["40", "0"], ["40", "0"]]
