"""``fit text``: from a file to a run folder with everything in it; large tables and folders."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from cli.conftest import QUICK, TINY, metrics_of, write_table
from representer import estimators
from representer.data.text import code_lines
from representer.data.text import words as stored
from representer.tasks import text
from representer.tasks import text as text_flow


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_model_learns_what_two_words_tell(trained):
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["test"]["accuracy"] == 1.0
    tfidf, _, majority = metrics["baselines"]
    assert tfidf["accuracy"] == 1.0
    assert majority["accuracy"] == 0.5
    assert metrics["test"]["count"] == 6


def test_steps_and_epochs_are_consistent_where_the_last_batch_is_smaller(run, table, tmp_path):
    out = tmp_path / "run"
    words = ["--batch-size", "9", "--epochs", "2", "--valid-fraction", "0.1"]
    assert run("fit", "text", table, "--out", out, *QUICK, *words).code == 0
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["steps_per_epoch"] == 6  # 48 training documents
    assert metrics["steps"] == 12
    assert metrics["epochs"] == 2


def test_the_splits_name_the_file_by_its_digest(trained):
    splits = json.loads((trained / "splits.json").read_text())
    (path, found), *others = splits["sha256"].items()
    assert others == []
    assert found == digest(Path(path))


def test_the_vocabulary_is_of_the_training_part_alone(run, tmp_path):
    data = write_table(tmp_path / "a.csv", count=40)
    other = tmp_path / "b.csv"
    other.write_text("text,label\nneverseen wave,sea\nneverseen moon,sky\n")
    outcome = run("fit", "text", data, "--test", other, "--out", tmp_path / "run", *QUICK)
    assert outcome.code == 0, outcome.err
    words = json.loads((tmp_path / "run/vocabulary.json").read_text())["words"]
    assert "wave" in words
    assert "neverseen" not in words


def test_a_kernel_alone_has_neither_network_nor_checkpoints_and_every_command_uses_it(
    run, table, tmp_path
):
    out = tmp_path / "run"
    words = ["fit", "text", table, "--out", out, *TINY, "--answer", "kernel"]
    assert run(*words).code == 0
    names = {path.name for path in out.iterdir()}
    assert {"kernel.json", "kernel.safetensors", "pool.json", "report.html"} <= names
    assert not {"model.safetensors", "checkpoints"} & names
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics["parts"]) == {"kernel"}
    assert metrics["seconds"] == metrics["parts"]["kernel"]["seconds"] > 0
    assert metrics["parameters"]["kernel"] == metrics["parameters"]["all"] > 0
    evaluated = json.loads(run("evaluate", out, table).out)
    assert evaluated["accuracy"] == 1
    rows = csv.DictReader(run("predict", out, table).out.splitlines())
    assert [row["prediction"] for row in rows] == ["sea", "sky"] * 30
    assert "wave" in run("explain", out, "--input", "wave tide", "--report").out
    assert run("report", out).code == 0
    before = digest(out / "kernel.safetensors")
    assert run(*words, "--resume").code == 0
    assert digest(out / "kernel.safetensors") == before
    refused = run(*words[:-1], "both", "--resume")
    assert "--answer is 'both'; expected 'kernel', with which the run in" in refused.error
    write_table(table, seed=1)
    changed = run(*words, "--resume").error
    assert f"{table}: is not the data with which the run in {out} was started" in changed
    assert digest(out / "kernel.safetensors") == before


def test_the_kernel_reaches_the_run_of_both(trained):
    metrics = json.loads((trained / "metrics.json").read_text())
    assert list(metrics["parts"]) == ["kernel", "network"]
    parts = metrics["parts"].values()
    assert sum(part["share"] for part in parts) == 1
    assert metrics["seconds"] == sum(part["seconds"] for part in parts)
    own = [count for name, count in metrics["parameters"].items() if name != "all"]
    assert sum(own) == metrics["parameters"]["all"]


def test_a_finished_run_can_be_given_more_epochs(run, table, tmp_path):
    out = tmp_path / "run"
    words = ["fit", "text", table, "--out", out, *QUICK, "--patience", "0"]
    assert run(*words).code == 0
    assert run(*words, "--resume", "--epochs", "2").code == 0
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["epoch"] == 2
    assert yaml.safe_load((out / "config.yaml").read_text())["epochs"] == 2


def test_vectors_give_the_size_and_their_coverage_is_printed(run, table, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("wave 1 0 0\nmoon 0 1 0\nunused 0 0 1\n")
    out = tmp_path / "run"
    words = ["--vectors", vectors, "--freeze-embeddings"]
    outcome = run("fit", "text", table, "--out", out, *QUICK, *words)
    assert outcome.code == 0, outcome.err
    assert "2 of 13 words (15.4%) have a vector" in outcome.err
    known = json.loads((out / "vocabulary.json").read_text())["words"]
    weight = load_file(out / "model.safetensors")["embedding.weight"]
    assert weight[known.index("moon")].tolist() == [0, 1, 0]


def test_the_demo_trains_two_cells_explains_a_line_and_can_be_repeated(run, tmp_path, monkeypatch):
    few = partial(code_lines, count=120)
    monkeypatch.setattr(text_flow, "code_lines", few)
    out = tmp_path / "demo"
    words = ["fit", "text", "--demo", "--out", out, "--epochs", "1", "--hidden-size", "4"]
    first, second = run(*words), run(*words)
    assert (first.code, second.code) == (0, 0), second.err
    assert (out / "lstm" / "model.safetensors").exists()
    metrics = json.loads((out / "metrics.json").read_text())
    assert [c["name"] for c in metrics["comparisons"]] == ["LSTM"]
    tfidf, svm, majority = metrics["baselines"]
    assert "selected on the validation documents" in tfidf["description"]
    assert "linear SVM" in svm["name"]
    assert majority["name"] == "majority class"
    lines = first.out.splitlines()
    assert lines[-1] == f"report: {out / 'report.html'}"
    (score,) = (line.split()[-1] for line in lines if line.startswith("  score "))
    assert lines[-3] == f"The contributions and the constant sum to {score}."
    constant = next(k for k, line in enumerate(lines) if line.startswith("  constant "))
    top = max(k for k, line in enumerate(lines[:constant]) if not line.strip())
    named = [line[:26].strip() for line in lines[top + 2 : constant]]  # after the line itself
    assert len({*named}) == len(named) > 3
    explained = json.loads((out / "details.json").read_text())["examples"]
    assert all(one["contributions"] for one in explained)
    shown = lines[lines.index("The first test line with two swapped tokens:") + 2].strip()
    assert shown in few().texts
    assert "epoch 1" in first.out
    assert "epoch 1" not in second.out  # nothing was trained again


def test_rows_that_cannot_be_used_are_counted_and_told(run, table, tmp_path):
    with table.open("a", newline="") as file:
        csv.writer(file).writerows([[60, "", "sea"], [61, "wave", ""]])
    outcome = run("fit", "text", table, "--out", tmp_path / "run", *QUICK)
    assert outcome.code == 0
    assert "2 rows left out: 1 empty text (line 62), 1 empty label (line 63)" in outcome.err
    assert "empty label" in (tmp_path / "run/report.html").read_text()


def test_kernel_and_network_alone_are_rows_of_the_results(run, table, tmp_path):
    out = tmp_path / "run"
    outcome = run("fit", "text", table, "--out", out, *QUICK, "--answer", "both")
    assert outcome.code == 0, outcome.err
    metrics = json.loads((out / "metrics.json").read_text())
    names = ["kernel alone", "network alone"]
    assert [row["name"] for row in metrics["alone"]] == names
    model = estimators.load(out)
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    tested = [
        rows[line - 2] for line in json.loads((out / "splits.json").read_text())["test"]["lines"]
    ]
    texts, labels = ([one[column] for one in tested] for column in ("text", "label"))
    for answer, row in zip(("kernel", "network"), metrics["alone"], strict=True):
        assert row["accuracy"] == pytest.approx(model.part(answer).score(texts, labels))
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in names for text in (outcome.out, page))


# ``fit text`` of tables whose texts stay in a file, and of folders.


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


def test_a_run_that_continues_with_other_limits_is_told_the_options_and_the_file(
    run, table, tmp_path
):
    """None of the trainer is 0 on the command line."""
    out = tmp_path / "run"
    words = ["fit", "text", table, "--out", out, *QUICK, "--epochs", "3"]
    assert run(*words, "--time-limit", "0.000001").code == 0
    file = f"--config {out / 'config.yaml'} --resume"
    for option, value, before in (("--max-steps", 5, 0), ("--evaluate-every", 7, 0)):
        refused = run(*words, "--resume", option, value)
        assert refused.code == 2
        assert f"{option} is {value}; expected {before}, with which" in refused.error
        assert file in refused.error
    refused = run(*words, "--resume", "--patience", "0")
    assert "--patience is 0; expected" in refused.error
    assert "None" not in refused.error
