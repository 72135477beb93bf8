"""``fit text`` of tables whose texts stay in a file, and of folders."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from cli.conftest import QUICK, TINY, metrics_of, write_table
from representer.data import stored
from representer.tasks import text


@pytest.fixture
def large(monkeypatch):
    """Let every table be large."""
    monkeypatch.setattr(text, "LARGE", 0)


def metrics(folder: Path) -> dict:
    known = metrics_of(folder)
    return {name: known[name] for name in ("test", "best_epoch", "steps", "baselines")}


def as_trained(folder: Path) -> tuple:
    found = metrics(folder)
    accuracies = [one["accuracy"] for one in (found["test"], *found["baselines"])]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [(row["train_loss"], row["valid_loss"]) for row in rows]
    return accuracies, losses, (folder / "vocabulary.json").read_text()


def test_a_model_of_a_large_table_is_that_of_the_same_rows_in_memory(run, tmp_path, monkeypatch):
    table = write_table(tmp_path / "table.csv")
    for name, least in (("memory", text.LARGE), ("file", 0)):
        monkeypatch.setattr(text, "LARGE", least)
        outcome = run("fit", "text", table, "--out", tmp_path / name, *TINY, "--epochs", "2")
        assert outcome.code == 0
        assert ("its texts stay in a file" in outcome.err) == (least == 0)
    one, other = tmp_path / "memory", tmp_path / "file"
    assert as_trained(one) == as_trained(other)
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert all((first[key] == second[key]).all() for key in first)
    splits = [json.loads((folder / "splits.json").read_text()) for folder in (one, other)]
    assert splits[0]["test"] == splits[1]["test"]
    assert splits[1]["train"]["lines"] == "all others"


@pytest.mark.slow
def test_a_folder_is_read_as_one_table(run, tmp_path):
    whole = write_table(tmp_path / "table.csv")
    with whole.open(newline="") as file:
        head, *rows = csv.reader(file)
    (tmp_path / "parts").mkdir()
    for number, start in enumerate(range(0, len(rows), 25)):
        with (tmp_path / "parts" / f"{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows[start : start + 25]])
    for name in ("table.csv", "parts"):
        words = ["--out", tmp_path / f"of {name}", *TINY, "--epochs", "2"]
        assert run("fit", "text", tmp_path / name, *words).code == 0
    assert as_trained(tmp_path / "of table.csv") == as_trained(tmp_path / "of parts")
    parts = json.loads((tmp_path / "of parts" / "splits.json").read_text())
    numbers = [number for part in ("train", "valid", "test") for number in parts[part]["rows"]]
    assert sorted(numbers) == [*range(1, 61)]


@pytest.mark.slow
def test_a_large_table_has_bounded_parts_and_a_sample_for_the_kernel(
    run, tmp_path, monkeypatch, large
):
    monkeypatch.setattr(stored, "SAMPLE", 12)
    table = write_table(tmp_path / "table.csv", count=200)
    words = ["--valid-fraction", "0.3", "--test-fraction", "0.3", "--conformal", "0.8"]
    assert run("fit", "text", table, "--out", tmp_path / "run", *TINY, *words).code == 0
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    for part in ("valid", "test"):
        assert 11 <= len(splits[part]["lines"]) <= 13
    assert metrics(tmp_path / "run")["test"]["accuracy"] > 0.8
    assert run("fit", "text", table, "--out", tmp_path / "run", *TINY, *words, "--resume").code == 0


def test_rows_that_cannot_be_used_are_counted(run, tmp_path, large):
    table = write_table(tmp_path / "table.csv")
    with table.open("a", newline="") as file:
        csv.writer(file).writerows([[60, "", "sea"], [61, "old", ""], [62, "--", "sky"]])
    words = ("--min-length", "3")
    outcome = run("fit", "text", table, "--out", tmp_path / "run", *QUICK, *words)
    assert outcome.code == 0
    left_out = (tmp_path / "run" / "skipped.csv").read_text()
    assert [line.split(",")[-1] for line in left_out.splitlines()[1:]] == [
        "empty text", "empty label", "too short",
    ]  # fmt: skip
