"""The benchmarks of growth and memory: what they fit, measure, leave out and write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from representer.ops import core

NEEDS = pytest.mark.skipif(
    bool(core.MISSING) or not Path("/proc/self/clear_refs").exists(), reason="needs core and Linux"
)


@pytest.fixture
def growth(bench: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module, without the package that compiles itself."""
    monkeypatch.setitem(sys.modules, "sru", None)  # so that importing it fails
    return bench("growth")


def test_the_exponent_is_that_of_a_power_and_cliffs_are_found(growth: ModuleType, bench):
    page, values = bench("growth_page"), (1, 2, 4, 8, 16, 32)
    curve = {v: growth.Point(3e-3 * v**1.5, 0.0) for v in values}
    assert page.exponent(curve) == pytest.approx(1.5)
    assert page.exponent({1: growth.Point(1.0, 0.0), 2: growth.Point(2.0, 0.0)}) is None
    assert page.cliffs(curve, 2) == []
    straight = {v: growth.Point(v * (5.0 if v > 4 else 1.0), 0.0) for v in values}
    assert page.cliffs(straight, 1) == [(4, 8, pytest.approx(5.0))]


@NEEDS
def test_the_peak_of_memory_is_that_of_the_largest_moment(growth: ModuleType):
    def run() -> None:
        for size in (2, 32, 4):
            torch.ones(size * 2**18)  # MiB

    assert 31 < growth.peak_memory(run) / 2**20 < 40


@NEEDS
def test_a_layer_stops_where_a_run_would_pass_the_limit(growth: ModuleType):
    axis = growth.Axis("time", "T", growth.Size(0, 2, 4, 4), (2, 20, 2_000_000))
    curves = growth.measure(axis, growth.FORWARD, 0.5, 1, None)
    assert set(curves) == {*growth.OURS, growth.LSTM}
    assert all(sorted(curve) == [2, 20] for curve in curves.values())


@NEEDS
def test_a_run_writes_a_page_with_curves(
    growth: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path, threads = tmp_path / "growth.md", torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["benchmarks/growth.py", "--quick", "--out", str(path)])
    axis = growth.Axis("units", "d", growth.Size(3, 2, 0, 0), (4, 8, 16))
    monkeypatch.setattr(growth, "AXES", (axis,))
    growth.main()
    torch.set_num_threads(threads)
    text = path.read_text()
    for told in (
        "python benchmarks/growth.py --quick --out",
        "(T, B, m, d) = (3, 2, d, d)",
        "| sru | left out: ",
        "![Time and memory by steps, sequences and units](growth.svg)",
        "| d | RKM-LSTM | Linear Kernel | string, order 1, highway | nn.LSTM |",
    ):
        assert told in text
    assert (tmp_path / "growth.svg").read_text().startswith("<?xml")


@NEEDS
def test_a_layer_that_needs_more_memory_than_the_baseline_misses_the_goal(bench, tmp_path: Path):
    memory = bench("training_memory")
    found = {"small": {"nn.LSTM": 100 * 2**20, "A": 104 * 2**20, "B": 106 * 2**20}}
    text = memory.page(found, "command", ("0.1", "0.2"))
    assert "| A | 104 | 1.04 | met |" in text
    assert "| B | 106 | 1.06 | missed |" in text
    measured = memory.measure(bench("cases").Size(3, 2, 4, 5), 1)
    assert set(measured) == set(memory.layers(4, 5))
