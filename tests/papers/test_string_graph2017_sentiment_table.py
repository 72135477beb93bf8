"""The sentiment table, from made-up results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from representer.errors import ArgumentError, DataError
from representer.tasks.recipe import Request
from representer_papers.string_graph2017.sentiment import (
    DATASETS,
    SentimentConfig,
    _write_table,
    locate_treebank,
    read_treebank,
)


def made_up(out: Path, cell: str, seed: int, accuracy: float, vectors: str | None = "v") -> None:
    config = SentimentConfig("fine", cell, seed, epochs=9, vectors=vectors, preset="authors_code")
    folder = out / "fine" / config.name
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(json.dumps(asdict(config)))
    metrics = {
        "test": {"accuracy": accuracy, "accuracy_interval": [accuracy - 0.01, accuracy + 0.02]},
        "valid": {"valid_accuracy": accuracy + 0.05}, "best_epoch": 3.0, "epochs": 7.0,
        "cover": {"types": 0.25, "running": 0.75} if vectors else {},
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(metrics))


def table(out: Path) -> list[str]:
    request = Request(out, out, table_only=True, command="representer reproduce")
    return _write_table(request, [DATASETS["fine"]]).read_text(encoding="utf-8").splitlines()


def test_a_row_shows_each_seed_the_mean_the_best_and_validation(tmp_path):
    for seed, accuracy in ((0, 0.50), (2, 0.40), (10, 0.45)):
        made_up(tmp_path, "gated", seed, accuracy)
    made_up(tmp_path, "gated-learned", 2, 0.30, vectors=None)
    lines = table(tmp_path)
    head, _, *rows = [line for line in lines if line.startswith("|")]
    assert "| seed 0 | seed 2 | seed 10 | mean | best | validation | best epoch |" in head
    epochs = "3 of 7, 3 of 7, 3 of 7"
    assert rows[2:] == [
        "| gated | `v` | `authors_code` | 50.00 | 40.00 | 45.00 | 45.00 ± 5.00 | 50.00 | 50.00 "
        f"| {epochs} |",
        "| gated-learned | none | `authors_code` | not run | 30.00 | not run "
        "| 30.00 (29.00 – 32.00) | 30.00 | 35.00 | 3 of 7 |",
    ]
    assert any("`v` covers 75.0% of the running words" in line for line in lines)


def test_a_data_set_without_a_finished_run_is_omitted(tmp_path):
    made_up(tmp_path, "gated", 0, 0.50)
    (tmp_path / "binary" / "begun").mkdir(parents=True)  # a run without figures yet
    request = Request(tmp_path, tmp_path, table_only=True, command="representer reproduce")
    text = _write_table(request, [DATASETS["binary"], DATASETS["fine"]]).read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## fine: five classes, trained on phrases"
    ]
    assert "No run is finished" not in text


# The reader of the treebank: files, parts, errors with their location.


def test_training_uses_phrases_and_evaluation_sentences(treebank):
    data = read_treebank(locate_treebank(treebank, ["fine"])[0])
    assert [len(data.parts[name]) for name in ("train", "valid", "test")] == [41, 11, 11]
    assert data.inputs.words(data.parts["train"].objects[1]) == ["weak", "film", ","]
    assert data.values["train"][:6].tolist() == [0, 1, 2, 3, 4, 0]
    assert "unseen" in data.inputs.vocabulary  # a word of the test part, which may have a vector
    assert len(read_treebank(locate_treebank(treebank, ["fine-roots"])[0]).parts["train"]) == 21


def test_a_missing_file_is_named(treebank):
    (treebank / "sst/stsa.fine.dev").unlink()
    assert [p.dataset.name for p in locate_treebank(treebank, [])] == ["binary", "binary-roots"]
    with pytest.raises(DataError, match=r"there is no stsa\.fine\.dev, nor sst/stsa\.fine\.dev"):
        locate_treebank(treebank, ["fine"])
    with pytest.raises(ArgumentError, match="datasets is 'five'"):
        locate_treebank(treebank, ["five"])
    with pytest.raises(DataError, match="REPRESENTER_DATA"):
        locate_treebank(treebank / "nowhere", [])


def test_a_label_of_another_task_is_refused_with_file_and_line(treebank):
    path = treebank / "sst/stsa.binary.dev"
    path.write_text("0 dull\n3 good film\n")
    with pytest.raises(DataError, match=r"stsa\.binary\.dev, line 2: starts with '3'"):
        read_treebank(locate_treebank(treebank, ["binary"])[0])
