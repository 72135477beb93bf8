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

from cli.conftest import TINY, rows_of
from representer import estimators
from representer.estimators import TextClassifier
from representer.storage.run import MANIFEST


def test_every_row_is_written_in_order_with_its_columns_and_a_prediction(
    run, trained, table, tmp_path
):
    out = tmp_path / "out.csv"
    assert run("predict", trained, table, "-o", out).code == 0
    rows, given = rows_of(out), rows_of(table)
    assert [{k: row[k] for k in ("id", "text", "label")} for row in rows] == given
    right = sum(row["prediction"] == row["label"] for row in rows)
    assert right >= 57


def test_a_row_without_text_keeps_its_place_and_gets_no_prediction(run, trained, tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("text,note\nwave salt,1\n,2\nmoon star,3\n")
    out = tmp_path / "out.csv"
    outcome = run("predict", trained, data, "-o", out)
    assert outcome.code == 0
    assert [row["note"] for row in rows_of(out)] == ["1", "2", "3"]
    assert [bool(row["prediction"]) for row in rows_of(out)] == [True, False, True]
    assert "1 row without a prediction: 1 empty text (line 3)" in outcome.err


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


def test_without_a_file_the_table_goes_to_stdout(run, trained, table):
    outcome = run("predict", trained, table)
    assert outcome.code == 0
    header, *rows = csv.reader(outcome.out.splitlines())
    assert header == ["id", "text", "label", "prediction", "probability_sea", "probability_sky"]
    assert len(rows) == 60


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


def test_a_run_saved_from_python_is_used_by_the_command_line(run, table, tmp_path):
    texts, labels = ["good film", "bad film"] * 10, ["+", "-"] * 10
    model = TextClassifier(hidden_size=4, embedding_size=4, epochs=1, random_state=0, verbose=0)
    model.fit(texts, labels).save(tmp_path / "run")
    with pytest.warns(UserWarning, match="texts have nothing that training had"):
        outcome = run("predict", tmp_path / "run", table, "--text", "text")
    assert outcome.out.splitlines()[0].endswith("prediction,probability_+,probability_-")


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


def test_a_run_of_the_command_line_is_loaded_in_python(trained):
    model = estimators.load(trained)
    assert model.predict(["wave tide"]).shape == (1,)
    assert model.explain(["wave tide"])[0].score


def test_texts_of_the_command_line_are_predicted_and_explained_without_a_file(run, trained, table):
    words = ["--input", "wave tide", "--input", "", "--input=moon, star"]
    header, *rows = csv.reader(run("predict", trained, *words).out.splitlines())
    assert header == ["document", "prediction", "probability_sea", "probability_sky"]
    assert [row[:2] for row in rows] == [["wave tide", "sea"], ["", ""], ["moon, star", "sky"]]
    explained = run("explain", trained, "--input", "wave tide")
    assert explained.out.startswith("document 1: sea (")
    for given, expected in (
        ([], "error: DATA is None; expected a file or a folder. For a single text: --input TEXT"),
        ([table, "--input", "wave"], "error: --input is 'wave'; expected nothing beside DATA."),
    ):
        assert run("predict", trained, *given).error == expected


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
