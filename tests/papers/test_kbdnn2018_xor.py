"""The recipe of parity: training, penalty, table and figure."""

from __future__ import annotations

import json

import pytest
import torch

from representer.cli.main import entry_point
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018 import RECIPES
from representer_papers.kbdnn2018.xor import ParitySetting, train_parity
from representer_papers.shared.runs import one_thread


def flushes():
    """Say whether the processor takes numbers too small to be normal for 0."""
    return torch.full((1,), 1e-310, dtype=torch.float64).mul(1.0).item() == 0


@pytest.mark.slow
def test_one_unit_learns_parity_and_the_penalty_removes_coefficients():
    plain = train_parity(ParitySetting(2, 50, 0.0, 1, 600))
    assert plain["solved"] is not None
    assert plain["solved"] < 600
    assert plain["error"] < 0.01
    penalized = train_parity(ParitySetting(2, 50, 0.05, 1, 600))
    assert penalized["large"] < plain["large"]
    assert penalized["variation"] < plain["variation"]


def test_a_run_with_wrong_final_outputs_is_not_solved():
    assert train_parity(ParitySetting(4, 5, 0.0, 0, 3))["solved"] is None


def test_the_budget_is_a_fraction_of_the_updates(tmp_path, monkeypatch):
    seen, ran = [], train_parity(ParitySetting(2, 5, 0.0, 0, 1))
    monkeypatch.setattr("representer_papers.kbdnn2018.xor._draw", lambda path, runs: None)
    monkeypatch.setattr(
        "representer_papers.kbdnn2018.xor.train_parity", lambda s: seen.append(s) or ran
    )
    RECIPES["kbrn-xor"].run(
        Request(tmp_path, tmp_path / "out", 0.003, seeds=(5,), command="representer")
    )
    assert {(setting.seed, setting.updates) for setting in seen} == {(5, 3_000)}
    assert len(seen) == 2 * 2 * 3


@pytest.mark.slow
def test_a_smoke_run_writes_table_and_figure_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("representer_papers.kbdnn2018.xor.CENTERS", (5,))
    command = ["reproduce", "kbrn-xor", "--smoke", "--out", str(tmp_path / "out")]
    assert entry_point(command) == 0, capsys.readouterr().err
    assert not flushes()  # the tests after this one need the smallest numbers
    table = (tmp_path / "out/table.md").read_text("utf-8")
    assert "Smoke run" in table
    rows = [line for line in table.splitlines() if line.startswith(("| 2 |", "| 4 |"))]
    assert len(rows) == 4
    picture = (tmp_path / "out/functions.svg").read_text("utf-8")
    assert picture.count("d = 5") == 4
    path = tmp_path / "out/2bit-5-plain-seed0/metrics.json"
    found = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(found | {"error": 0.123}), encoding="utf-8")
    assert entry_point(command) == 0
    assert "1.2e-01" in (tmp_path / "out/table.md").read_text("utf-8")


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_one_thread_restores_threads_and_denormals_even_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert flushes()
            assert torch.get_num_threads() == 1
        assert not flushes()
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert not flushes()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
