"""The benchmark of GPU kernels, on the CPU with tiny sizes: every section, and the budget."""

from __future__ import annotations

import json
from dataclasses import replace
from types import ModuleType

import pytest
import torch

from representer.ops import OPS


@pytest.fixture
def gpu(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("gpu")


def test_every_section_writes_rows_and_the_table_has_every_layer(gpu, tmp_path, capsys):
    assert gpu.main(["--smoke", "--budget", "900", "--out", str(tmp_path)]) == 0
    lines = (tmp_path / "gpu.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert gpu.SHARES.keys() <= {row["section"] for row in rows}
    timed = [row for row in rows if row.get("clock") == "eager"]
    assert all(0 < row["p20"] <= row["median"] <= row["p80"] for row in timed)
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert page == capsys.readouterr().out.rstrip("\n") + "\n"
    for layer in ("nn.LSTM", "nn.LSTM again", "StringKernelRNN", "RKMLSTM", "direct sum"):
        assert page.count(f"| eager | {layer} |") == 2
    assert "needs a CUDA device" in {row.get("failed") for row in rows}


def test_wrong_kernels_are_not_timed(gpu, tmp_path, monkeypatch):
    op = OPS["gated_scan"]
    wrong = replace(op, definition=lambda **given: [2 * x for x in op.definition(**given)])
    monkeypatch.setitem(OPS, "gated_scan", wrong)
    assert gpu.main(["--smoke", "--budget", "900", "--out", str(tmp_path)]) == 1
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "gated_scan torch.float32: 1 samples" in page
    assert "WRONG" in page
    assert "nn.LSTM" not in page


def test_a_spent_budget_leaves_cases_out_and_says_so(gpu, tmp_path):
    run = gpu.Run("cpu", 0.0, tmp_path)
    gpu.recurrent(run, 1.0, [(3, 2, 8)])
    assert {row["section"] for row in run.rows} == {"skipped"}
    assert all(row["reason"] == "no time left" for row in run.rows)


def test_without_a_device_the_script_says_what_to_do(gpu, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--out", str(tmp_path)])
    assert "--smoke" in capsys.readouterr().err
