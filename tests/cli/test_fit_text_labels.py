"""``fit text`` with several labels a text, and with several targets, and every command after it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from representer.cli.main import entry_point
from representer.estimators import TextClassifier
from representer.serving.served_model import ServedModel

BASES = {"wave tide": ["sea"], "moon old": ["sky"], "wave moon": ["sea", "sky"], "plain words": []}
ROWS = [(f"{base} n{k}", labels) for k in range(12) for base, labels in BASES.items()]
SMALL = ["--answer", "kernel", "--baselines", "none", "--threads", "1"]


def write(folder: Path, name: str, head: list[str], rows: Any) -> str:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table with labels in one column, and the run of it."""
    folder = tmp_path_factory.mktemp("lists")
    data = write(folder, "l.csv", ["text", "tags"], [(t, "; ".join(own)) for t, own in ROWS])
    run = str(folder / "run")
    words = ["--multilabel", "--label", "tags", "--answer", "kernel", "--threads", "1"]
    assert entry_point(["fit", "text", data, *words, "--out", run]) == 0
    return data, run


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table with a column of 0 and 1 for each label, and the run of it."""
    folder = tmp_path_factory.mktemp("columns")
    rows = [(text, int("sea" in own), int("sky" in own)) for text, own in ROWS]
    data, run = write(folder, "c.csv", ["text", "sea", "sky"], rows), str(folder / "run")
    assert entry_point(["fit", "text", data, "--target", "sea,sky", *SMALL, "--out", run]) == 0
    return data, run


def predicted(run: str, data: str, folder: Path) -> list[dict[str, str]]:
    out = folder / "p.csv"
    assert entry_point(["predict", run, data, "-o", str(out)]) == 0
    return list(csv.DictReader(out.read_text("utf-8").splitlines()))


def test_labels_in_one_cell_are_predicted_as_a_list_with_the_probability_of_each(lists, tmp_path):
    data, run = lists
    rows = predicted(run, data, tmp_path)
    assert [json.loads(row["prediction"]) for row in rows] == [own for _, own in ROWS]
    chances = np.array([[float(row[f"probability_{n}"]) for n in ("sea", "sky")] for row in rows])
    model = TextClassifier.load(run)
    np.testing.assert_allclose(chances, model.predict_proba([t for t, _ in ROWS]), atol=1e-6)
    metrics = json.loads((Path(run) / "metrics.json").read_text())
    assert metrics["targets"] == ["sea", "sky"]
    assert {"micro_f1", "macro_f1", "accuracy", "accuracy_interval"} <= set(metrics["sets"])
    baselines = {one["name"]: one["sets"] for one in metrics["baselines"]}
    assert baselines["TF-IDF + logistic regression"]["micro_f1"] == 1.0
    assert baselines["majority class"]["micro_f1"] == 0.0
    assert metrics["verdict"].startswith("all labels right: On ")
    report = (Path(run) / "report.html").read_text("utf-8")
    assert "sea" in report
    assert "sky" in report


def test_a_column_for_each_label_is_the_same_target_with_a_prediction_for_each(
    lists, columns, tmp_path
):
    data, run = columns
    rows = predicted(run, data, tmp_path)
    assert [json.loads(row["prediction"]) for row in rows] == [own for _, own in ROWS]
    assert [[int(row[f"prediction_{n}"]) for n in ("sea", "sky")] for row in rows] == [
        ["sea" in own, "sky" in own] for _, own in ROWS
    ]
    one, other = TextClassifier.load(run), TextClassifier.load(lists[1])
    assert one.predict(["tide"]).tolist() == [[1, 0]]
    assert other.predict(["tide"]).tolist() == [("sea",)]
    np.testing.assert_array_equal(one.predict_proba(["tide"]), other.predict_proba(["tide"]))


@pytest.mark.parametrize("which", ["lists", "columns"])
def test_evaluate_has_the_f1_of_all_labels_and_explain_names_the_label(which, request, capsys):
    data, run = request.getfixturevalue(which)
    assert entry_point(["evaluate", run, data]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["micro_f1"], found["macro_f1"], found["accuracy"]) == (1.0, 1.0, 1.0)
    assert found["targets"]["sky"]["accuracy"] == 1.0
    assert entry_point(["explain", run, "--input", "old moon"]) == 0
    assert "document 1: sky; the score of sky" in capsys.readouterr().out


def test_json_lines_hold_lists_and_what_predict_writes_can_be_evaluated(lists, tmp_path, capsys):
    path = tmp_path / "l.jsonl"
    path.write_text("\n".join(json.dumps({"text": t, "tags": own}) for t, own in ROWS))
    assert entry_point(["evaluate", lists[1], str(path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == 1.0
    predicted(lists[1], lists[0], tmp_path)
    words = ["evaluate", lists[1], str(tmp_path / "p.csv"), "--label", "prediction"]
    assert entry_point(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == 1.0


def test_a_server_answers_with_the_labels_and_the_probability_of_each(columns):
    model = ServedModel(columns[1], device="cpu")
    (answer,) = model.predict(model.read(["wave moon"]))
    assert answer["prediction"] == ["sea", "sky"]
    assert set(answer["probabilities"]) == {"sea", "sky"}
    assert model.describe()["classes"] == [["sea", "sky"]]


def test_comparisons_count_texts_whose_labels_are_all_right(lists, tmp_path, capsys):
    words = ["--epochs", "1", "--hidden-size", "4", "--baselines", "none", "--threads", "1"]
    words += ["--multilabel", "--label", "tags", "--splits", "2", "--out", str(tmp_path / "c")]
    words = ["compare", "text", lists[0], *words]
    assert entry_point(words) == 0
    assert "kernel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cells", "targets"),
    [([("a", "low"), ("b", "high"), ("a", "")], ["where", "size"]),
     ([("1.5", "2.25"), ("0.5", "1.25"), ("2.5", "3.75")], ["p", "q"])],
)  # fmt: skip
def test_several_columns_of_classes_or_numbers_are_several_targets(cells, targets, tmp_path):
    rows = [(text, *cells[k % 3]) for k, (text, _) in enumerate(ROWS)]
    data, run = write(tmp_path, "d.csv", ["text", *targets], rows), str(tmp_path / "run")
    words = ["fit", "text", data, "--label", ",".join(targets), *SMALL, "--out", run]
    assert entry_point(words) == 0
    (row, *_) = predicted(run, data, tmp_path)
    assert {f"prediction_{name}" for name in targets} <= set(row)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["targets"] == targets
    assert [*ServedModel(run, device="cpu").predict(["wave tide"])[0]["targets"]] == targets


@pytest.mark.parametrize(("words", "message"), [
    (["--label", "sea,zz"], "there is no column 'zz'"),
    (["--label", "text,sea", "--text", "text"], "a column other than the text"),
    (["--label", "sea", "--target", "sky"], "--target is 'sky'; expected nothing beside"),
    (["--label", "sea,sky", "--separator", ";"], "--separator is ';'; expected nothing"),
    (["--label", "sea", "--separator", ";"], "--separator is ';'; expected nothing"),
    (["--label", "sea,kind", "--multilabel"], "line 2, column 'kind': is 'x'; expected 0 or 1"),
    (["--label", "one,sky", "--multilabel"], "all of the 48 objects have the label 'one'"),
    (["--label", "one", "--multilabel"], "there are 1 labels; at least 2"),
    (["--label", "sea,sky", "--conformal", "0.9"], "--conformal is 0.9; expected nothing"),
    (["--label", "sky", "--multilabel", "--kind", "regression"], "classification with"),
])  # fmt: skip
def test_a_wrong_column_or_option_is_one_line(words, message, tmp_path, capsys):
    rows = [(text, int("sea" in own), int("sky" in own), "x", 1) for text, own in ROWS]
    data = write(tmp_path, "w.csv", ["text", "sea", "sky", "kind", "one"], rows)
    out = str(tmp_path / "run")
    assert entry_point(["fit", "text", data, *words, *SMALL, "--out", out]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error


def test_an_unknown_label_of_another_file_names_its_line(lists, tmp_path, capsys):
    other = write(tmp_path, "o.csv", ["text", "tags"], [("wave", "sea"), ("moon", "sky; mud")])
    assert entry_point(["evaluate", lists[1], other]) == 2
    error = capsys.readouterr().err
    assert "o.csv, line 3, column 'tags': label 'mud' is not one of 'sea', 'sky'" in error


def test_an_exported_program_predicts_the_labels(lists, tmp_path):
    assert entry_point(["export", lists[1], "--out", str(tmp_path / "e")]) == 0
    code = [sys.executable, str(tmp_path / "e" / "predict.py"), "wave moon"]
    shown = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    assert "sea" in shown
    assert "sky" in shown


def test_a_list_that_would_fill_the_memory_when_it_is_parsed_is_refused(tmp_path, capsys):
    long = str([f"t{k}" for k in range(10_000)])  # quoted by Python, not by JSON
    data = write(tmp_path, "l.csv", ["text", "tags"], [("wave", "['sea']"), ("moon", long)])
    words = ["--multilabel", "--label", "tags", *SMALL, "--out", str(tmp_path / "run")]
    assert entry_point(["fit", "text", data, *words]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "line 3, column 'tags': a list of 88,890 characters; expected at most 65,536" in error
