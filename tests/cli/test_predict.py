"""``predict``: every row of the input, in order, with an answer."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.conftest import TINY, Outcome, last_json, rows_of, write_table
from representer.cli.main import load
from representer.cli.parser import parse, task_and_options
from representer.data.tables.files import BlockSize
from representer.errors import ArgumentError
from representer.estimators import TextClassifier
from representer.storage.run import MANIFEST, RunFolder
from representer.tasks import text


def test_every_row_is_written_in_order_with_its_columns_and_a_prediction(
    run, trained, table, tmp_path
):
    out = tmp_path / "out.csv"
    assert run("predict", trained, table, "-o", out).code == 0
    rows, given = rows_of(out), rows_of(table)
    assert [{k: row[k] for k in ("id", "text", "label")} for row in rows] == given
    right = sum(row["prediction"] == row["label"] for row in rows)
    assert right >= 57


def test_a_column_without_a_name_keeps_its_empty_head(run, trained, tmp_path):
    data = tmp_path / "pandas.csv"  # with its index
    data.write_text(",text,note\n0,wave salt,1\n1,moon star,3\n")
    out = tmp_path / "out.csv"
    assert run("predict", trained, data, "-o", out).code == 0
    assert out.read_text().splitlines()[0].startswith(",text,note,prediction,")


def test_a_text_without_remaining_words_gets_no_prediction(run, table, tmp_path):
    """The leam scheme deletes what is not ASCII."""
    words = ["--tokenizer", "leam", "--baselines", "none", "--epochs", "1"]
    assert run("fit", "text", table, "--out", tmp_path / "run", *TINY, *words).code == 0
    data, out = tmp_path / "a.csv", tmp_path / "out.csv"
    data.write_text("text\nwave\néé\n", encoding="utf-8")
    outcome = run("predict", tmp_path / "run", data, "-o", out)
    assert [bool(row["prediction"]) for row in rows_of(out)] == [True, False]
    assert "1 too short (line 3)" in outcome.err


def test_json_lines_keep_what_is_no_text(run, trained, tmp_path):
    data = tmp_path / "a.jsonl"
    lines = [{"text": "wave", "n": 1.5, "t": ["ä", None]}, {"text": "moon", "n": None, "t": []}]
    data.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    out = tmp_path / "out.csv"
    assert run("predict", trained, data, "-o", out).code == 0
    assert [(row["n"], row["t"]) for row in rows_of(out)] == [("1.5", '["ä", null]'), ("", "[]")]


def test_a_column_that_would_be_there_twice_is_refused(run, trained, tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("text,prediction\nwave,x\n")
    outcome = run("predict", trained, data, "-o", tmp_path / "out.csv")
    assert outcome.code == 2
    assert "column 'prediction'" in outcome.error
    assert not (tmp_path / "out.csv").exists()


def test_a_device_that_the_machine_does_not_have_is_refused_as_in_fit(
    run, trained, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    expected = "error: --device is 'cuda'; expected auto or cpu"
    fit = run("fit", "text", table, "--out", tmp_path / "run", *TINY, "--device", "cuda")
    assert (fit.code, fit.error.startswith(expected)) == (2, True)
    for command in ("predict", "evaluate", "explain"):
        refused = run(command, trained, table, "--device", "cuda")
        assert (refused.code, refused.error) == (fit.code, fit.error), command
        on_cpu, usual = (
            run(command, trained, table, *words) for words in (["--device", "cpu"], [])
        )
        assert on_cpu.code == 0
        assert on_cpu.out == usual.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_the_device_stays_a_device(run, trained, table):
    outcome = run("predict", trained, table, "-o", "/dev/full")
    assert outcome.code == 2
    assert "/dev/full cannot be written: no space left on device" in outcome.error
    assert Path("/dev/full").is_char_device()


def test_a_disk_that_fills_up_leaves_the_old_output(run, trained, table, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("before")
    monkeypatch.setenv("REPRESENTER_FAILPOINT", "csv.begun:enospc")
    outcome = run("predict", trained, table, "-o", out)
    assert outcome.code == 2
    assert out.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "table.csv"]


@pytest.mark.parametrize("column", [None, ""])
@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_run_that_names_no_column_of_texts_asks_for_one(
    run, trained, table, tmp_path, command, column
):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / MANIFEST).unlink()
    described = json.loads((folder / "model.json").read_text("utf-8"))
    described["reading"]["text"] = column
    (folder / "model.json").write_text(json.dumps(described), encoding="utf-8")
    outcome = run(command, folder, table)
    assert (outcome.code, "expected the column with the texts" in outcome.error) == (2, True)
    assert run(command, folder, table, "--text", "text").code == 0


def test_classes_of_a_run_saved_from_python_may_be_numbers(run, tmp_path):
    texts, labels = ["good film", "bad film"] * 10, [1.5, 0.5] * 10
    model = TextClassifier(hidden_size=4, embedding_size=4, epochs=1, random_state=0, verbose=0)
    labels = np.array(labels, dtype=object)
    model.fit(texts, labels).save(tmp_path / "run")
    (tmp_path / "a.csv").write_text("text\ngood film\n")
    for command in ("predict", "explain"):
        outcome = run(command, tmp_path / "run", tmp_path / "a.csv", "--text", "text")
        assert outcome.code == 0, outcome.err
        assert "1.5" in outcome.out


def test_texts_of_the_command_line_are_predicted_and_explained_without_a_file(run, trained):
    words = ["--input", "wave tide", "--input", "", "--input=moon, star"]
    header, *rows = csv.reader(run("predict", trained, *words).out.splitlines())
    assert header == ["document", "prediction", "probability_sea", "probability_sky"]
    assert [row[:2] for row in rows] == [["wave tide", "sea"], ["", ""], ["moon, star", "sky"]]
    explained = run("explain", trained, "--input", "wave tide")
    assert explained.out.startswith("document 1: sea (")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("is_named", [True, False])
def test_standard_input_and_output_are_a_dash(
    run, trained, table, suffix, is_named, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    content = table.read_bytes()
    if suffix == "jsonl":
        content = "".join(
            json.dumps({"text": row["text"]}) + "\n" for row in rows_of(table)
        ).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    words = ["--format", suffix] if is_named else []
    outcome = run("predict", trained, "-", *words, "-o", "-")
    assert outcome.code == 0
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert [row["text"] for row in rows] == [row["text"] for row in rows_of(table)]
    assert {row["prediction"] for row in rows} == {"sea", "sky"}
    assert not Path("-").exists()


# ``evaluate``: the figures of a run on other data, as one JSON object.


def test_an_unknown_label_is_named_with_file_line_column_and_fix(run, trained, tmp_path):
    data = write_table(tmp_path / "other.csv", count=4)
    data.write_text(data.read_text() + "9,wave tide,seas\n")
    outcome = run("evaluate", trained, data)
    assert outcome.code == 2
    assert outcome.error.startswith(
        f"error: {data}, line 6, column 'label': the label 'seas' is not one of the 2 classes"
    )
    assert "Did you mean 'sea'?" in outcome.error
    assert outcome.out == ""


def test_columns_may_be_named_anew(run, trained, tmp_path):
    data = tmp_path / "other.csv"
    data.write_text("document,kind\nwave tide,sea\n")
    assert "there is no column 'text'" in run("evaluate", trained, data).error
    outcome = run("evaluate", trained, data, "--text", "document", "--label", "kind")
    assert outcome.code == 0


def test_every_option_that_says_how_to_read_reaches_the_reader(run, trained, tmp_path):
    """The table can be read with all of the options, and with none of them left out."""
    data = tmp_path / "other.csv"
    data.write_bytes("wåve tide^sea\nclöud wing^sky\n".encode("utf-16"))
    words = {"--text": "1", "--label": "2", "--header": "false", "--delimiter": "^",
             "--encoding": "utf-16"}  # fmt: skip

    def call(command: str, without: str = "") -> Outcome:
        kept = [word for pair in words.items() if pair[0] != without for word in pair]
        return run(command, trained, data, *kept)

    for command in ("evaluate", "predict"):
        complete = call(command)
        assert complete.code == 0, complete.err
        for name in ("--encoding", "--delimiter"):
            assert call(command, without=name).out != complete.out, name
    assert call("evaluate", without="--label").code == 2


def test_a_table_of_molecules_may_have_another_delimiter_and_encoding(tmp_path):
    (tmp_path / "model.json").write_text('{"task": "molecule"}')

    def task(*words: str) -> str:
        arguments = parse("evaluate", load("evaluate"), [str(tmp_path), "a.csv", *words])
        return task_and_options(arguments, "evaluate")[0].name

    assert task("--delimiter", "|", "--encoding", "utf-16") == "molecule"
    with pytest.raises(ArgumentError, match="header is False"):
        task("--header", "false")


def test_finite_weights_with_predictions_that_are_not_finite_are_one_line(
    run, trained, table, tmp_path
):
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    weights = load_file(out / "model.safetensors")
    with RunFolder(out, resume=True) as folder:
        folder.write_tensors("model.safetensors", {n: w.sign() * 1e38 for n, w in weights.items()})
    for command in ("evaluate", "predict"):
        outcome = run(command, out, table)
        assert outcome.code == 2, outcome.err
        assert f"{out}: the predictions are not finite" in outcome.error


def test_damaged_weights_are_named(run, trained, table, tmp_path):
    for path in trained.iterdir():
        if path.suffix in (".json", ".safetensors", ".yaml"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    outcome = run("evaluate", tmp_path, table)
    assert outcome.code == 2
    assert f"{weights} does not hold this model's weights" in outcome.error
    weights.unlink()
    assert "there are no weights yet" in run("evaluate", tmp_path, table).error


def test_a_folder_has_the_metrics_of_its_rows_whatever_the_blocks(
    run, trained, table, tmp_path, monkeypatch
):
    whole = json.loads(run("evaluate", trained, table).out)
    header, *rows = table.read_text().splitlines()
    for name, part in (("a.csv", rows[:25]), ("b.csv", [*rows[25:], "x,,sea"])):
        (tmp_path / "parts" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "parts" / name).write_text("\n".join([header, *part]) + "\n")
    monkeypatch.setattr(text, "SMALL", BlockSize(800, 800))
    outcome = run("evaluate", trained, tmp_path / "parts")
    assert "b.csv: 1 row left out: 1 empty text (line 37)" in outcome.err
    found = json.loads(outcome.out)
    assert found.pop("left_out") == 1
    for name in ("count", "accuracy", "macro_f1"):
        assert found[name] == whole[name], name
    assert found["loss"] == pytest.approx(whole["loss"], rel=1e-4)  # float32 in other batches


def test_objects_that_were_trained_on_are_counted(run, trained, tmp_path):
    whole = (trained.parent / "table.csv").read_text().splitlines(keepends=True)
    parts = json.loads((trained / "splits.json").read_text())
    lines = [*parts["train"]["lines"], *parts["valid"]["lines"]]
    part = tmp_path / "part.csv"
    chosen = [whole[line - 1].replace(" ", "  ") for line in lines[:3]]
    word = chosen[0].split(",")[1].split()[0]  # a text without any known word gets a warning
    part.write_text(whole[0] + "".join(chosen) + f"9,{word} with new words,sea\n")
    outcome = run("evaluate", trained, part)
    assert last_json(outcome)["trained_on"] == 3
    shown = f"{part}: 3 of 4 documents are those that the model was trained on; only others"
    assert shown in outcome.err
