"""The recipe of L19 Table 2: data sets, runs, resumption, table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from representer.cli.main import entry_point
from representer.tasks.recipe import Request
from representer_papers.rkm2019 import RECIPES, documents
from representer_papers.shared import datasets
from undrawn import undrawn

SMOKE = ["--smoke", "--threads", "1", "--cells", "rkm-cifg,cnn"]


@pytest.fixture(scope="session")
def out(data, tmp_path_factory) -> Path:
    """Return the folder of a finished smoke run, which tests leave as they found it."""
    folder = tmp_path_factory.mktemp("out")
    words = ["reproduce", "rkm-documents", "--data", str(data), "--out", str(folder)]
    with undrawn():
        assert entry_point([*words, "--datasets", "ag_news", *SMOKE]) == 0
    return folder


@pytest.fixture(scope="session")
def table(out) -> str:
    return (out / "table.md").read_text(encoding="utf-8")


def test_a_smoke_run_fills_the_table_through_the_command_line(table, out):
    (row,) = [line for line in table.splitlines() if line.startswith("| RKM-CIFG |")]
    assert "| 92.29 | " in row
    assert row.count("4 steps") == 2  # 1-gram and 3-gram
    assert "| CNN | 91.20 | " in table
    assert "| LSTM | 91.82 | not run | 92.46 | not run |" in table
    assert "| TF-IDF + logistic regression | – | 100.00" in table
    assert "Smoke run" in table
    assert "30 of 120,000 training and 10 of 7,600 test" in table
    metrics = json.loads((out / "ag_news/cnn-1gram-seed0/metrics.json").read_text())
    assert [b["name"] for b in metrics["baselines"]][-1] == "majority class"
    runs = sorted(p.name for p in (out / "ag_news").iterdir() if p.is_dir())
    assert runs == [f"{c}-{n}gram-seed0" for c in ("cnn", "rkm-cifg") for n in (1, 3)]


def test_the_budget_shortens_training_and_the_table_shows_the_steps(data, tmp_path, monkeypatch):
    steps = {"max_steps": 40, "hidden_size": 4, "embedding_size": 4, "valid_fraction": 0.2}
    for name, settings in documents.PRESETS.items():
        monkeypatch.setitem(documents.PRESETS, name, {**settings, **steps})
    request = Request(
        data, tmp_path / "out", budget=0.25, datasets=("ag_news",), cells=("cnn",),
        filter_lengths=(1,), threads=1,
    )  # fmt: skip
    monkeypatch.setattr(documents, "VALID_FRACTION", 0.2)
    monkeypatch.setattr(datasets, "train_baselines", lambda data: [])
    assert "10 steps" in RECIPES["rkm-documents"].run(request).read_text(encoding="utf-8")
    metrics = json.loads((tmp_path / "out/ag_news/cnn-1gram-seed0/metrics.json").read_text())
    assert metrics["steps"] == 10
