"""The benchmark of graphs: its candidates agree, and a wrong one is not timed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from representer.ops import core

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch):
    """Return the benchmark's module, as the script is."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("graphs")
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("backward", [False, True])
def test_every_sum_is_that_of_pyg(graphs, backward):
    for parts in graphs.PARTS:
        section = graphs.sums((9, 20, 3, 17), parts, backward)  # which compares them
        for candidate in section.candidates:
            candidate.run()


def test_a_wrong_sum_is_not_timed(graphs, monkeypatch):
    right = graphs.walk_aggregate
    monkeypatch.setattr(graphs, "walk_aggregate", lambda *a, **o: right(*a, **o) * 1.01)
    with pytest.raises(SystemExit, match="the values differ; nothing is timed"):
        graphs.sums((9, 20, 3, 17), "plain", False)


def test_an_epoch_trains_every_network(graphs, monkeypatch):
    monkeypatch.setattr(graphs, "COUNT", 4)
    for candidate in graphs.epochs().candidates:
        candidate.run()
