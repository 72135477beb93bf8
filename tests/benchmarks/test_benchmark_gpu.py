"""The benchmark of GPU kernels, on the CPU with tiny sizes: every section, and the budget."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

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
    assert page.count("| eager | launched from Python |") == 1
    assert "## Beside the equations" in page
    for layer in (
        "nn.LSTM",
        "gated_scan",
        "nn.LSTM again",
        "StringKernelRNN",
        "direct sum",
        "KBRN",
        "GINEConv",
    ):
        assert page.count(f"| eager | {layer} |") == 2
    assert "failed" not in {row["section"] for row in rows}
    assert "needs a CUDA device" in {row.get("failed") for row in rows}


def test_wrong_kernels_are_not_timed(gpu, tmp_path, monkeypatch):
    op = OPS["gated_scan"]
    wrong = replace(op, definition=lambda **given: [2 * x for x in op.definition(**given)])
    monkeypatch.setitem(OPS, "gated_scan", wrong)
    assert gpu.main(["--smoke", "--budget", "900", "--out", str(tmp_path)]) == 1
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `gated_scan` | float32 |"))
    assert float(row.split("|")[4]) > 0.1
    assert "| nn.LSTM |" not in page


def test_a_spent_budget_leaves_cases_out_and_says_so(gpu, tmp_path):
    run = gpu.Run("cpu", 0.0, tmp_path)
    gpu.timed(run, "recurrent", gpu.sections(True)["recurrent"], 1.0)
    assert {row["section"] for row in run.rows} == {"skipped"}
    assert all(row["reason"] == "no time left" for row in run.rows)


def test_a_case_that_cannot_run_leaves_the_others(gpu, tmp_path, monkeypatch):
    def fails(device: str) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(gpu, "compare", lambda run, section, case: run.write(section))
    run = gpu.Run("cpu", float("inf"), tmp_path)
    gpu.timed(run, "recurrent", [fails, lambda device: None], 0.0)
    assert [row["section"] for row in run.rows] == ["skipped", "recurrent"]
    assert "out of memory" in run.rows[0]["reason"]


def test_a_goal_is_the_lowest_ratio_of_its_cases(bench):
    goals = bench("gpu_goals")
    goal, *_ = goals.goals()
    assert goal.ratios([]) == []

    def row(layer: str, median: float, size: tuple[int, ...], **other: str) -> dict[str, Any]:
        given = {"mode": goal.mode, "clock": goal.clock, "dtype": "bfloat16"} | other
        return {
            "section": goal.section,
            "layer": layer,
            "median": median,
            "p20": 0.0,
            "p80": 0.0,
            "size": size,
        } | given

    medium, long, short = (128, 64, 300, 300), (1024, 16, 650, 650), (35, 20, 650, 650)
    rows = []
    for size, theirs in ((medium, 120.0), (long, 90.0), (short, 1.0)):
        rows += [row(goal.baseline, theirs, size), row(goal.ours, 10.0, size)]
    rows.append(row(goal.ours, 999.0, medium, mode="forward"))
    assert goal.ratios(rows[:2]) == [12.0]
    assert min(goal.ratios(rows)) == 9.0
    page = bench("gpu_page").page
    assert "| 9.00 (2): missed |" in page(rows)
    assert "| 12.00 (1): met |" in page(rows[:2])


def test_the_published_page_has_every_goal_and_the_device(gpu, bench, tmp_path):
    gpu.main(["--page", str(tmp_path / "gpu.md")])
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    count = len(bench("gpu_goals").goals())
    assert page.count("| not measured |") == count
    published = (Path(__file__).parents[2] / "docs/results/gpu.md").read_text(encoding="utf-8")
    rows = [line.rpartition(" | ")[0] for line in page.splitlines() if "| not measured |" in line]
    assert len(rows) == count
    assert all(f"{row} | " in published for row in rows)
    assert "Measured on one NVIDIA" in published


def test_the_page_is_written_again_from_its_rows_with_a_note(gpu, tmp_path):
    row = {"section": "identity", "gpu": "NVIDIA H1", "torch": "2", "triton": "3",
           "copy_gb_s": 4005.0, "bf16_tflop_s": 780.2}  # fmt: skip
    rows, page = tmp_path / "gpu.jsonl", tmp_path / "gpu.md"
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    gpu.main(["--rows", str(rows), "--page", str(page), "--note", "Beside other work."])
    text = page.read_text(encoding="utf-8")
    assert "one NVIDIA H1 with torch 2 and Triton 3: a copy moves 4.0 TB/s" in text
    assert "Beside other work." in text


def test_without_a_device_the_script_says_what_to_do(gpu, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--out", str(tmp_path)])
    assert "--smoke" in capsys.readouterr().err
