"""The recipe of L19 Table 2: data sets, runs, resumption, table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from representer.cli.main import entry_point
from representer.tasks.recipe import Request
from representer_papers.rkm2019 import RECIPES, documents
from representer_papers.rkm2019.documents import DATASETS, DocumentFiles, _write_table
from representer_papers.shared import datasets
from undrawn import undrawn

# The recipe of L19 Table 2: data sets, runs, resumption, table.

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


# The made_up_table of document classification, from made-up results.

SEEDS = (0, 1, 2)


def metrics(accuracy: float, steps: int = 40) -> dict:
    interval = [accuracy - 0.02, accuracy + 0.01]
    return {
        "test": {"accuracy": accuracy, "accuracy_interval": interval},
        "valid": {"valid_accuracy": 0.99, "accuracy": 0.99},
        "steps": steps,
    }


def write(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def made_up_table(tmp_path: Path, runs: dict, seeds=SEEDS, sizes=(114_000, 6_000, 7_600)) -> str:
    baseline = {"name": "majority", "accuracy": 0.25, "accuracy_interval": [0.24, 0.26]}
    part = dict(zip(("train", "valid", "test"), sizes, strict=True))
    for seed in seeds:
        written = {"sizes": part, "baselines": [baseline]}
        write(tmp_path / f"ag_news/baselines-seed{seed}.json", written)
    for (cell, n, seed), found in runs.items():
        folder = tmp_path / f"ag_news/{cell}-{n}gram-seed{seed}"
        write(folder / "recipe.json", {"cell": cell, "filter_length": n, "seed": seed})
        write(folder / "metrics.json", found)
    place = DocumentFiles(DATASETS["ag_news"], Path(), Path(), "2,3")
    request = Request(tmp_path, tmp_path, seeds=seeds, command="representer")
    return _write_table(request, [place]).read_text("utf-8")


def test_the_table_shows_mean_and_standard_deviation_over_seeds(tmp_path):
    runs = {
        ("cnn", 1, seed): metrics(accuracy, steps)
        for seed, accuracy, steps in zip(SEEDS, (0.5, 0.6, 0.8), (40, 60, 40), strict=True)
    }
    text = made_up_table(tmp_path, runs)
    assert "| CNN | 91.20 | 63.33 ± 15.28 (3 seeds), 40 / 60 steps |" in text
    assert "| majority | – | 25.00 ± 0.00 (3 seeds) |" in text
    assert "## AG News (full set)" in text


@pytest.mark.parametrize("missing", [False, True])
def test_the_order_of_cells_is_compared_once_all_seeds_are_finished(tmp_path, missing):
    cells = ("lstm", "rkm-lstm", "rkm-cifg", "linear-kernel-gated", "linear-kernel", "gated-cnn")
    runs = {
        (cell, 3, seed): metrics(0.9 - 0.05 * place + 0.001 * seed)
        for place, cell in enumerate((*cells, "cnn"))
        for seed in SEEDS
    }
    if missing:
        del runs["cnn", 3, 2]
    text = made_up_table(tmp_path, runs)
    assert ("Of 21 pairs of cells, 21 differ" in text) is not missing


def test_a_subset_is_labeled_as_a_subset(tmp_path):
    text = made_up_table(tmp_path, {}, sizes=(90, 10, 7_600))
    assert "(a subset, not comparable with the paper: 100 of 120,000 training and 7,600" in text
