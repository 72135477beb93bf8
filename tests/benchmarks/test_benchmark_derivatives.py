"""The cost of second derivatives: both kinds of operators give the same gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from representer.ops import OPS, core


@pytest.mark.slow
@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING)
def test_the_page_has_every_operator(bench, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "derivatives.md"
    monkeypatch.setattr(sys, "argv", ["derivatives.py", "--rounds", "2", "--out", str(out)])
    before = [op._operators.operator for op in OPS.values()]
    bench("derivatives").main()
    assert [op._operators.operator for op in OPS.values()] == before
    page = out.read_text("utf-8")
    assert all(f"| `{name}`," in page for name in OPS)
