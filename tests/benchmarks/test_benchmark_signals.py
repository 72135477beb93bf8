"""The benchmark of signals: it verifies, measures everything, and tells the goal."""

from __future__ import annotations

from types import ModuleType

import pytest

from representer.ops import core


@pytest.fixture
def signals(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("signals")


@pytest.mark.parametrize("stride", [1, 20])
def test_another_model_is_not_measured(signals: ModuleType, stride, monkeypatch):
    signals.verify(stride, 60)
    right = signals.Unfolded.states
    monkeypatch.setattr(signals.Unfolded, "states", lambda self, x: right(self, x.roll(1, 2)))
    with pytest.raises(SystemExit, match=r"differs from nn\.LSTM"):
        signals.verify(stride, 60)


@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING or "")
def test_every_candidate_is_in_the_table(signals: ModuleType):
    found = {stride: signals.measure(stride, 80, 2, 3) for stride in (1, 20)}
    steps = {stride: signals.latencies(stride, 4) for stride in (1, 20)}
    page = signals.page(found, steps, ("0.1", "0.2"))
    for name in (*signals.CELLS, signals.BASELINE):
        assert page.count(f"| {name} |") == 2
    assert "The goal is 2 times" in page
    assert all(seconds == sorted(seconds) and seconds[0] > 0 for seconds in steps.values())


def test_the_table_divides_the_baseline_by_each_candidate(signals: ModuleType, bench):
    lstm = next(iter(signals.CELLS))
    seconds = {1: {lstm: 0.5, signals.BASELINE: 2.0}, 10: {lstm: 1.5, signals.BASELINE: 2.0}}
    rounds = bench("timing").Rounds
    found = {
        stride: rounds({name: {0: taken} for name, taken in of_stride.items()})
        for stride, of_stride in seconds.items()
    }
    steps = {stride: [k / 1e6 for k in range(100)] for stride in seconds}
    page = signals.page(found, steps, ("0", "0"))
    assert f"| 1 | {lstm} | 500.0 | 4.00 |" in page
    assert "4.00 times at a stride of 1 (met), 1.33 times at a stride of 10 (missed)." in page
    assert "| 10 | 50 | 95 |" in page
