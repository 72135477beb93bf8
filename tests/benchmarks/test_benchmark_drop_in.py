"""The comparison of layers as replacements: resumable, paired, with hand-made scores."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture
def drop_in(bench):
    return bench("drop_in")


def test_every_layer_of_a_kind_is_trained_and_an_interrupted_table_continues(
    drop_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    words = [
        f"--runs={runs}",
        f"--out={page}",
        "--seeds=1",
        "--steps=0",
        "--only",
        "waves",
        "rings",
    ]
    monkeypatch.setattr(sys, "argv", ["drop_in.py", *words])
    drop_in.main()
    first = finished(runs)
    assert [(run["problem"], run["layer"]) for run in first] == [
        (problem, layer)
        for kind, problem in zip(drop_in.KINDS[1:], ("rings", "waves"), strict=True)
        for layer in kind.baselines | kind.layers
    ]
    runs.write_text(runs.read_text("utf-8")[:-20], "utf-8")  # stopped while writing the last
    drop_in.main()
    assert [{**run, "seconds": 0} for run in finished(runs)] == [
        {**run, "seconds": 0} for run in first
    ]
    assert "| `KernelActivation` |" in page.read_text("utf-8")


def finished(runs: Path) -> list[dict[str, Any]]:
    lines = runs.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


@pytest.mark.parametrize("name", ["order", "majority", "brackets", "adding"])
def test_labels_follow_from_the_sequences(drop_in, name: str):
    examples, _ = drop_in.examples(drop_in.SEQUENCES[name], 0)
    for x, y in zip(examples.inputs[:50], examples.targets[:50], strict=True):
        row = x.tolist()
        if name == "order":
            assert int(y) == (row.index(0) < row.index(1))
        elif name == "majority":
            assert int(y) == (sum(row) > len(row) / 2)
        elif name == "adding":
            torch.testing.assert_close(y, x[x[:, 1] == 1, 0].sum())
            assert x[:, 1].sum() == 2
        else:
            assert int(y) == is_balanced(row)


def is_balanced(row: list[int]) -> bool:
    """Return True if brackets, 0 and 1 that 2 and 3 close, match."""
    stack: list[int] = []
    for token in row:
        if token < 2:
            stack.append(token)
        elif not stack or stack.pop() != token - 2:
            return False
    return not stack


def test_a_layer_is_worse_if_the_interval_of_paired_differences_is_below_zero(bench):
    page = bench("drop_in_page")
    found = page.difference([80.0, 70.0, 60.0], [83.0, 72.0, 61.0])
    assert found.mean == pytest.approx(-2)
    assert found.half == pytest.approx(4.303 / 3**0.5, abs=1e-3)  # t of two degrees of freedom
    assert not found.is_worse
    assert page.Difference(-2.0, 1.9).is_worse
    assert not page.Difference(-0.4, 0.1).is_worse  # less than half a point


def test_seeds_are_paired_and_a_worse_layer_is_listed(bench):
    page = bench("drop_in_page")
    base = [page.Run("p", "LSTM", seed, 10.0 * seed, 1.0) for seed in range(4)]
    worse = [page.Run("p", "RAN", seed, 10.0 * seed - 5, 1.0) for seed in (2, 1, 3)]
    groups = [("Layers", {"p": "a problem"}, ["LSTM"], ["RAN"])]
    text = page.page([*base, *worse], groups, "Adam", "python x", ("0", "0"))
    assert "| `RAN` | **15.0 (-5.0 ± 0.0)** | 1.0 |" in text
    assert "Worse beyond noise in 1 of 1 comparisons: RAN on a problem." in text
