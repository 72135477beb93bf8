"""The table of document classification, from made-up results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from representer.tasks.recipe import Request
from representer_papers.rkm2019.documents import DATASETS, DocumentFiles, _write_table

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


def table(tmp_path: Path, runs: dict, seeds=SEEDS, sizes=(114_000, 6_000, 7_600)) -> str:
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
    text = table(tmp_path, runs)
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
    text = table(tmp_path, runs)
    assert ("Of 21 pairs of cells, 21 differ" in text) is not missing


def test_a_subset_is_labeled_as_a_subset(tmp_path):
    text = table(tmp_path, {}, sizes=(90, 10, 7_600))
    assert "(a subset, not comparable with the paper: 100 of 120,000 training and 7,600" in text
