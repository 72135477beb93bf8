"""The recipe of L17 Table 2: runs, resumption, one run, the table, the treebank."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from papers.conftest import write_treebank
from representer.cli.main import entry_point
from representer.data.text import Vocabulary, read_vectors
from representer.errors import ArgumentError, DataError
from representer.estimators import halves
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import RECIPES, sentiment
from representer_papers.string_graph2017.published import SENTIMENT_CELLS
from representer_papers.string_graph2017.sentiment import (
    DATASETS,
    SentimentConfig,
    _write_table,
    build_classifier,
    locate_treebank,
    read_treebank,
    with_vectors,
)
from undrawn import undrawn

# The recipe of L17 Table 2: runs, resumption, table.

# of a tiny treebank, some texts have no word of the training
pytestmark = pytest.mark.filterwarnings("ignore:.*nothing that training had")


def words(treebank: Path, out: Path) -> list[str]:
    return [
        "reproduce", "string-sentiment", "--data", str(treebank), "--out", str(out),
        "--smoke", "--threads", "1", "--vectors", str(treebank / "tiny.3d.txt"),
        "--datasets", "fine", "--cells", "gated,constant-learned",
    ]  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished smoke run, to be copied."""
    out = tmp_path_factory.mktemp("finished")
    with undrawn():
        assert entry_point(words(write_treebank(tmp_path_factory.mktemp("treebank")), out)) == 0
    return out


@pytest.fixture
def table(finished, tmp_path) -> str:
    shutil.copytree(finished, tmp_path / "out")
    return (tmp_path / "out/table.md").read_text(encoding="utf-8")


def row(table: str, name: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_smoke_run_fills_the_table_through_the_command_line(table, tmp_path):
    assert "Smoke run" in table
    assert (
        "a subset, not comparable with the paper: 41 / 11 / 11 of 157,401 / 1,101 / 2,210" in table
    )
    assert row(table, "gated, L17")[-4:] == ["52.4", "53.2", "53.7", "–"]
    ours = row(table, "gated")
    assert ours[1:3] == ["`tiny.3d`", "`paper`"]
    metrics = json.loads((tmp_path / "out/fine/gated-tiny.3d-seed0/metrics.json").read_text())
    assert ours[3] == f"{100 * metrics['test']['accuracy']:.2f}"
    assert ours[-1].endswith("of 2")
    assert metrics["test"]["count"] == 11
    assert row(table, "constant-learned")[1] == "none"
    assert row(table, "TF-IDF + logistic regression")[4] == "100.00"  # a word determines the class
    assert "`tiny.3d` covers" in table
    assert "–" in row(table, "majority class")


def test_a_run_of_the_table_can_be_evaluated_and_explained(table, tmp_path, capsys):
    folder = tmp_path / "out/fine/gated-tiny.3d-seed0"
    (tmp_path / "new.csv").write_text("text,label\n-lrb- a fine FILM,3\n", encoding="utf-8")
    capsys.readouterr()
    assert (
        entry_point(["explain", str(folder), str(tmp_path / "new.csv"), "--top", "2", "--inside"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "-lrb-" in shown  # cut at blanks alone, as the treebank
    assert "FILM" in shown
    assert "layer 1 of 3, contributions propagated" in shown
    assert entry_point(["predict", str(folder), str(tmp_path / "new.csv")]) == 0


def test_a_larger_budget_continues_runs_that_used_all_their_epochs(
    treebank, tmp_path, monkeypatch, capsys
):
    from representer_papers.string_graph2017 import sentiment

    small = {name: value for name, value in sentiment._SMOKE.items() if name != "epochs"}
    monkeypatch.setattr(sentiment, "_SMOKE", small)

    def epochs(budget: float) -> float:
        RECIPES["string-sentiment"].run(
            Request(treebank, tmp_path / "out", budget, smoke=True, datasets=("binary-roots",),
                    cells=("constant-learned",), threads=1)
        )  # fmt: skip
        path = tmp_path / "out/binary-roots/constant-learned-seed0/metrics.json"
        return json.loads(path.read_text())["epochs"]

    assert epochs(0.005) == 1
    assert epochs(0.015) == 3
    assert epochs(0.005) == 3  # what there is counts
    assert "starting from the beginning" not in "".join(capsys.readouterr())


def test_a_cell_with_word_vectors_requires_a_file(treebank, tmp_path):
    with pytest.raises(ArgumentError, match="a file of word vectors for gated"):
        RECIPES["string-sentiment"].run(Request(treebank, tmp_path / "out", cells=("gated",)))


# One run of the sentiment table: vocabulary, word vectors, weights.


TINY = SentimentConfig("fine", "gated", seed=0, epochs=1, vectors="tiny.3d", hidden_size=4)


@pytest.fixture
def data(treebank):
    return read_treebank(locate_treebank(treebank, ["fine"])[0])


@pytest.fixture
def vectors(treebank):
    return read_vectors(treebank / "tiny.3d.txt")


def test_frozen_vectors_are_normalized_and_unknown_words_share_a_row_of_zeros(data, vectors):
    chosen, matrix, cover = with_vectors(TINY, data, vectors)
    assert matrix is not None
    assert sorted(chosen.inputs.vocabulary.words[2:]) == ["bad", "dull", "film", "good", "unseen"]
    torch.testing.assert_close(matrix.norm(dim=1), torch.tensor([0.0, 0, 1, 1, 1, 1, 1]))
    (good,) = chosen.inputs.vocabulary.encode(["good"])  # its vector is that of Good
    torch.testing.assert_close(matrix[good], torch.tensor([0.0, 0.6, 0.8]))
    assert chosen.inputs.vocabulary.encode(["rock"]) == [Vocabulary.UNKNOWN]
    # of bad dull weak film the rock good fine cast "," unseen; in two rounds of five texts, and one
    assert cover["types"] == pytest.approx(5 / 11)
    words = [word for text in data.parts["test"].objects for word in text.split()]
    known = [word for word in words if word in chosen.inputs.vocabulary]
    assert cover["running"] == pytest.approx(len(known) / len(words))
    assert 0.3 < cover["running"] < 0.6


def test_every_training_word_has_a_row_if_vectors_are_tuned(data, vectors):
    chosen, matrix, _ = with_vectors(replace(TINY, cell="gated-tuned"), data, vectors)
    assert matrix is not None
    assert {"rock", "the", "weak", "unseen"} <= set(chosen.inputs.vocabulary.words)
    (rock,) = chosen.inputs.vocabulary.encode(["rock"])
    assert 0 < matrix[rock].abs().max() <= 1
    assert not matrix[Vocabulary.UNKNOWN].any()
    model = build_classifier(replace(TINY, cell="gated-tuned"), chosen, matrix)
    assert model.embedding.weight.requires_grad


def test_learned_vectors_cover_only_training_words(data):
    chosen, matrix, cover = with_vectors(replace(TINY, cell="gated-learned"), data, None)
    assert matrix is None
    assert cover == {}
    assert "unseen" not in chosen.inputs.vocabulary
    assert "rock" in chosen.inputs.vocabulary
    model = build_classifier(replace(TINY, cell="gated-learned", embedding_size=7), chosen, None)
    assert model.config.embedding_size == 7


def test_initial_weights_depend_only_on_the_seed(data, vectors):
    chosen, matrix, _ = with_vectors(TINY, data, vectors)
    first, second = build_classifier(TINY, chosen, matrix), build_classifier(TINY, chosen, matrix)
    other = build_classifier(replace(TINY, seed=1), chosen, matrix)
    assert torch.equal(first.output.weight, second.output.weight)
    assert not torch.equal(first.output.weight, other.output.weight)
    assert not first.embedding.weight.requires_grad
    assert torch.equal(first.embedding.weight, other.embedding.weight)


def test_the_test_part_is_predicted_with_the_weights_of_the_best_epoch(
    data, vectors, tmp_path, monkeypatch
):
    seen, accuracies = [], iter((0.9, 0.4))
    make_task, predict = sentiment.training_task, halves.outputs_of

    def task(*given):
        scores = ({"valid_accuracy": a, "valid_loss": 1.0} for a in accuracies)
        return replace(make_task(*given), evaluate=lambda model, check: next(scores))

    def record(model, inputs, texts):
        seen.append((texts, {k: v.clone() for k, v in model.state_dict().items()}))
        return predict(model, inputs, texts)

    monkeypatch.setattr(sentiment, "training_task", task)
    monkeypatch.setattr(halves, "outputs_of", record)
    with RunFolder(tmp_path / "run") as folder:
        sentiment.run_sentiment(1, folder, replace(TINY, epochs=2, max_drop=1.0), (data, vectors))
    ((texts, weights),) = seen
    chosen, _, _ = with_vectors(TINY, data, vectors)
    assert texts == chosen.encoded["test"]
    best, final = (
        safetensors.torch.load_file(tmp_path / f"run/{name}.safetensors")
        for name in ("model", "final")
    )
    assert all(torch.equal(weights[name], best[name]) for name in best)
    assert not torch.equal(best["output.weight"], final["output.weight"])


def test_the_name_of_a_cell_determines_its_decay_and_embedding():
    said = {
        c: (replace(TINY, cell=c).decay, replace(TINY, cell=c).embedding) for c in SENTIMENT_CELLS
    }
    assert set(said.values()) == {
        (d, e) for d in ("state", 0.5) for e in ("frozen", "tuned", "learned")
    }
    assert said["constant-tuned"] == (0.5, "tuned")
    assert TINY.name == "gated-tiny.3d-seed0"


# The sentiment made_up_table, from made-up results.


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


def made_up_table(out: Path) -> list[str]:
    request = Request(out, out, table_only=True, command="representer reproduce")
    return _write_table(request, [DATASETS["fine"]]).read_text(encoding="utf-8").splitlines()


def test_a_row_shows_each_seed_the_mean_the_best_and_validation(tmp_path):
    for seed, accuracy in ((0, 0.50), (2, 0.40), (10, 0.45)):
        made_up(tmp_path, "gated", seed, accuracy)
    made_up(tmp_path, "gated-learned", 2, 0.30, vectors=None)
    lines = made_up_table(tmp_path)
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
