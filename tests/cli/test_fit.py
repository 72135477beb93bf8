"""Promises of ``fit`` and of the commands that use its run, for every task."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from cli.conftest import (
    GRAPH,
    LANGUAGE,
    MOLECULE,
    SEQUENCE,
    SERIES,
    SIGNAL,
    TINY,
    metrics_of,
    rows_of,
)
from page_checks import faults
from representer import estimators
from saved_weights import read_weights
from undrawn import without_drawings

NAMES = {
    "config.yaml", "details.json", "manifest.json", "metrics.json", "metrics.jsonl", "model.json",
    "model.safetensors", "report.html", "splits.json",
}  # fmt: skip
TASKS = {  # the shared run, its data, its options, further files of the run
    "text": ("trained", "table.csv", TINY, {"vocabulary.json", "metrics.csv", "kernel.json"}),
    "molecule": (
        "molecule_run", "made.csv",
        [*MOLECULE, "--target", "atoms,rings", "--baselines", "all"],
        {"gine", "pool.json", "kernel.json", "kernel.safetensors"},
    ),
    "graph": ("graph_run", "classes.jsonl", GRAPH, {"pool.json", "kernel.json"}),
    "signal": ("signal_run", "drawn.npz", SIGNAL, {"folds"}),
    "series": ("series_run", "series.csv", SERIES, {"kernel.json", "pool.json"}),
    "sequence": ("sequence_run", "dna.csv", SEQUENCE, {"kernel.json", "pool.json"}),
    "language": ("language_run", "count.txt", LANGUAGE, {"vocabulary.json", "metrics.csv"}),
}  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """A finished run of a task, which tests only read, and the command that made it."""

    task: str
    run: Path
    data: Path
    options: list[str]
    files: set[str]

    def copy(self, folder: Path) -> Path:
        """Copy the run, for a test that writes into it."""
        return shutil.copytree(self.run, folder / "run")

    def command(self, out: Path, *more: str | Path) -> list[str | Path]:
        """Return the command of the run with another folder and further options."""
        return ["fit", self.task, self.data, "--out", out, *self.options, *more]


@pytest.fixture(scope="session", params=TASKS)
def fitted(request: pytest.FixtureRequest) -> Fitted:
    """The run of each task."""
    fixture, data, options, files = TASKS[request.param]
    run = request.getfixturevalue(fixture)
    return Fitted(request.param, run, run.parent / data, options, files)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the weights below a folder, and the data that were split."""
    names = ("*.safetensors", "splits.json", "metrics.jsonl")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in names
        for path in folder.rglob(name)
        if "checkpoints" not in path.parts
    }


def test_a_run_holds_everything_that_was_promised(fitted):
    names = {path.name for path in fitted.run.iterdir()}
    assert names >= NAMES | fitted.files
    assert not list(fitted.run.rglob("*.tmp"))
    assert metrics_of(fitted.run)["verdict"]


def test_a_run_that_python_loads_and_saves_again_predicts_the_same(run, fitted, tmp_path):
    """Of signals, so are the subjects by which windows are standardized."""
    estimators.load(fitted.run).save(tmp_path / "again")
    folders = (fitted.run, tmp_path / "again")
    first, second = (run("predict", folder, fitted.data, "-o", "-") for folder in folders)
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out


def test_the_report_is_a_valid_page_that_report_writes_again(run, fitted, tmp_path):
    before = (fitted.run / "report.html").read_text(encoding="utf-8")
    assert faults(before) == []
    assert "<script" not in before
    assert "Learning curves" in before
    out = fitted.copy(tmp_path)
    (out / "report.html").unlink()
    assert run("report", out).code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert without_drawings(page) == without_drawings(before)


def test_weights_of_the_best_epoch_are_kept(fitted):
    metrics = metrics_of(fitted.run)
    rows = [json.loads(line) for line in (fitted.run / "metrics.jsonl").read_text().splitlines()]
    best = min(rows, key=lambda row: row["valid_loss"])
    assert metrics["valid"]["valid_loss"] == best["valid_loss"]
    assert metrics.get("best_epoch", best["epoch"]) == best["epoch"]
    assert read_weights(fitted.run / "model.safetensors")[1] == metrics["valid"]


def test_the_splits_name_every_object_once(fitted):
    splits = json.loads((fitted.run / "splits.json").read_text())
    if fitted.task == "signal":
        folds = [fold["test"] for fold in splits["folds"]]
        assert folds == [[f"subject {number}"] for number in range(4)]
    elif fitted.task != "language":  # a text is divided into consecutive parts
        parts = [splits[name] for name in ("train", "valid", "test")]
        listed = [v for part in parts for v in part.values() if isinstance(v, list)]
        numbers = [number for rows in listed for number in rows]
        first = 1 if fitted.task in ("graph", "series", "sequence") else 2  # a line below a header
        assert sorted(numbers) == [*range(first, first + 60)]


def test_the_command_of_the_run_makes_it_again_and_names_no_default(fitted):
    command = json.loads((fitted.run / "details.json").read_text())["command"]
    assert command.startswith(f"representer fit {fitted.task} {fitted.data} --out {fitted.run} ")
    named = {word for word in command.split() if word.startswith("--")} - {"--out"}
    assert named <= {word for word in fitted.options if word.startswith("--")}
    assert f"--hidden-size {fitted.options[1]} " in f"{command} "


def test_a_finished_run_is_neither_overwritten_nor_continued_with_other_settings_or_data(
    run, fitted, tmp_path
):
    out = fitted.copy(tmp_path)
    before = contents(out)
    refused = run(*fitted.command(out))
    assert refused.code == 2
    assert f"--out is '{out}'" in refused.error
    assert "--resume" in refused.error
    refused = run(*fitted.command(out, "--resume", "--hidden-size", "5"))
    assert refused.code == 2
    expected = f"--hidden-size is 5; expected {fitted.options[1]}, with which the run in"
    assert expected in refused.error
    other = changed(fitted.data, tmp_path / fitted.data.name)
    refused = run(*replace(fitted, data=other).command(out, "--resume"))
    assert refused.code == 2
    assert f"is not the data with which the run in {out} was started" in refused.error
    assert contents(out) == before


def changed(data: Path, other: Path) -> Path:
    """Write data of the same format that are not those of the run, and return their file."""
    if data.suffix == ".npz":
        with np.load(data) as arrays:
            values = dict(arrays)
        np.savez(other, **values | {"X": 2 * values["X"]})
    else:
        lines = data.read_text(encoding="utf-8").splitlines(keepends=True)
        other.write_text("".join(lines[:-4]), encoding="utf-8")
    return other


def test_a_finished_run_continues_with_the_same_result(run, fitted, tmp_path):
    out = fitted.copy(tmp_path)
    before = contents(out)
    again = run(*fitted.command(out, "--resume"))
    assert again.code == 0, again.err
    assert again.out.splitlines()[-1] == f"report: {out / 'report.html'}"
    assert contents(out) == before
    assert metrics_of(out)["verdict"] == metrics_of(fitted.run)["verdict"]


def test_predictions_are_complete_and_the_likeliest_class_is_named(run, fitted, tmp_path):
    outcome = run("predict", fitted.run, fitted.data)
    assert outcome.code == 0, outcome.err
    assert run("predict", fitted.run, fitted.data, "-o", tmp_path / "out.csv").code == 0
    rows = rows_of(outcome.out)
    assert rows == rows_of(tmp_path / "out.csv")
    assert len(rows) == (40 if fitted.task == "signal" else 60)
    head = "probability_"
    for row in rows:
        assert all(row[name] for name in row if name.startswith(("prediction", "uncertainty")))
        chances = {n.removeprefix(head): float(row[n]) for n in row if n.startswith(head)}
        if chances:
            assert sum(chances.values()) == pytest.approx(1, abs=2e-6)
            assert row["prediction"] == max(chances, key=lambda name: chances[name])


def test_explanations_sum_to_their_scores_and_are_in_the_terminal_and_the_report(
    run, fitted, tmp_path
):
    out = fitted.copy(tmp_path)
    assert run("explain", out, fitted.data, "--limit", "2").code == 0
    assert not (out / "explanations.json").exists()
    outcome = run(
        "explain", out, fitted.data, "--limit", "2", "--top", "3", "--report", "--by", "feature"
    )
    assert outcome.code == 0, outcome.err
    entries = json.loads((out / "explanations.json").read_text())
    page = (out / "report.html").read_text(encoding="utf-8")
    assert faults(page) == []
    assert f"Explained predictions: {fitted.data.name}</h2>" in page
    assert len(entries) == 2
    for entry in entries:
        assert len(entry["contributions"]) <= 3
        total = entry["constant"] + entry["others"]["contribution"]
        total += sum(row["contribution"] for row in entry["contributions"])
        assert total == pytest.approx(entry["score"], abs=1e-5)
        assert entry["prediction"] in outcome.out
        assert all(row["what"] in outcome.out for row in entry["contributions"])


def test_python_reads_the_run_and_every_command_reads_what_python_saved(run, fitted, tmp_path):
    if fitted.task in ("molecule", "signal"):
        pytest.skip("names of targets and standardization by subject are not of the estimator")
    estimators.load(fitted.run).save(tmp_path / "saved")
    assert load_file(tmp_path / "saved/model.safetensors").keys() == (
        load_file(fitted.run / "model.safetensors").keys()
    )
    columns = ["--text", "text"] if fitted.task == "text" else []
    for command in ("predict", "explain"):
        words = [*columns, "--limit", "2"] if command == "explain" else columns
        first, second = (
            run(command, folder, fitted.data, *words) for folder in (fitted.run, tmp_path / "saved")
        )
        assert first.code == second.code == 0, second.err
        assert first.out == second.out


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain"])
def test_a_folder_of_another_version_is_refused(run, fitted, tmp_path, command):
    (tmp_path / "model.json").write_text(json.dumps({"task": fitted.task, "model": {}}))
    refused = run(command, tmp_path, fitted.data)
    assert refused.code == 2
    assert "was written by version 0.1.0" in refused.error


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\0\0\n\n", None], ids=repr)
def test_a_bad_file_is_one_line_and_leaves_no_folder(run, fitted, tmp_path, content):
    data = tmp_path / fitted.data.name
    if content is not None:
        data.write_bytes(content)
    refused = run(*replace(fitted, data=data).command(tmp_path / "run"))
    assert refused.code == 2
    assert data.name in refused.error
    assert not (tmp_path / "run").exists()
    for command in ("evaluate", "predict", "explain"):
        assert data.name in run(command, fitted.run, data).error
