"""``evaluate``: the figures of a run on other data, as one JSON object."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file

from cli.conftest import Outcome, last_json, metrics_of, write_table
from representer.cli.main import load
from representer.cli.parser import parse, task_and_options
from representer.data.tables.files import BlockSize
from representer.errors import ArgumentError
from representer.storage.run import RunFolder
from representer.tasks import text


def test_the_last_line_of_stdout_is_one_json_object(run, trained, table):
    outcome = run("evaluate", trained, table)
    metrics = last_json(outcome)
    assert outcome.code == 0
    assert metrics["count"] == 60
    assert metrics["accuracy"] > 0.9
    assert [c["label"] for c in metrics["per_class"]] == ["sea", "sky"]


def test_the_test_part_of_the_run_gives_the_figures_of_the_run(run, trained, tmp_path):
    whole = (trained.parent / "table.csv").read_text().splitlines(keepends=True)
    lines = json.loads((trained / "splits.json").read_text())["test"]["lines"]
    part = tmp_path / "test.csv"
    part.write_text(whole[0] + "".join(whole[line - 1] for line in lines))
    metrics = last_json(run("evaluate", trained, part))
    written = metrics_of(trained)["test"]
    assert metrics["loss"] == pytest.approx(written["loss"], rel=1e-6)
    assert metrics["accuracy"] == written["accuracy"]


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
    data.write_bytes("wåve tide|sea\nclöud wing|sky\n".encode("utf-16"))
    words = {"--text": "1", "--label": "2", "--header": "false", "--delimiter": "|",
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
