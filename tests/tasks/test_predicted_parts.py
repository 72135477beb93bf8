"""Predictions of a table in many files."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path

import pytest

from cli.conftest import QUICK, Outcome, write_table
from representer.cli.main import entry_point
from representer.jobs import workers
from representer.options.registry import TASKS
from representer.options.task import Task
from representer.tasks.use import RECORD, RESULTS, predict_parts
from undrawn import undrawn


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    table = write_table(folder / "table.csv")
    with undrawn():
        assert entry_point(["fit", "text", str(table), "--out", str(folder / "run"), *QUICK]) == 0
    return folder / "run"


@pytest.fixture
def parts(tmp_path) -> Path:
    """Three tables in a folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    for k in range(3):
        write_table(folder / f"part.{k}.csv", count=20, seed=k)
    return folder


@pytest.fixture
def run(capsys):
    def call(*words: str | Path) -> Outcome:
        capsys.readouterr()
        code = entry_point([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return [*csv.reader(file)]


def test_outputs_are_those_of_one_file_at_a_time_and_are_not_written_again(
    run, fitted, parts, tmp_path
):
    out = tmp_path / "out"
    command = ("predict", fitted, parts, "-o", out, "--jobs", "1")
    assert run(*command).code == 0
    names = [f"part.{k}.csv" for k in range(3)]
    for name in names:
        one = tmp_path / name
        assert run("predict", fitted, parts / name, "-o", one).code == 0
        assert rows(out / name) == rows(one)
    assert [row[0] for row in rows(out / names[1])][1:] == [str(n) for n in range(20)]
    before = {name: (out / name).stat().st_mtime_ns for name in names}
    write_table(parts / names[2], count=5, seed=9)
    (out / names[0]).unlink()
    outcome = run(*command)
    assert "predictions of 3 files; 1 were there" in outcome.err
    now = {name: (out / name).stat().st_mtime_ns for name in names}
    assert [now[name] == before[name] for name in names] == [False, True, False]
    assert len(rows(out / names[2])) == 6
    left = {*names, RECORD, RESULTS, ".lock"}
    assert {path.name for path in out.iterdir()} == left


def test_other_folders_are_left_alone(run, fitted, parts, tmp_path):
    out = tmp_path / "out"
    assert run("predict", fitted, parts, "-o", out, "--jobs", "1").code == 0
    record = json.loads((out / RECORD).read_text())
    record["model"]["model.safetensors"] = "0" * 64
    (out / RECORD).write_text(json.dumps(record))
    expected = {
        out: "holds predictions of another model", parts: "is the input",
        parts / "part.0.csv": "is a file", fitted: "expected a new folder, or that of predictions",
    }  # fmt: skip
    for folder, message in expected.items():
        outcome = run("predict", fitted, parts, "-o", folder, "--jobs", "1")
        assert outcome.code == 2
        assert message in outcome.error
    (out / RECORD).write_text("[]")
    assert "cannot be used" in run("predict", fitted, parts, "-o", out, "--jobs", "1").error


def test_an_unusable_part_is_an_error_and_the_others_stay(run, fitted, parts, tmp_path):
    (parts / "part.1.csv").write_text("other,label\n1,2\n")
    outcome = run("predict", fitted, parts, "-o", tmp_path / "out", "--jobs", "1")
    assert outcome.code == 2
    assert "part.1.csv" in outcome.error
    assert (tmp_path / "out" / "part.0.csv").is_file()
    assert not (tmp_path / "out" / "part.1.csv").exists()


@pytest.mark.parametrize(("words", "message"), [
    (("--jobs", "0", "-o", "out"), "--jobs is 0; expected 1 or more"),
    (("--jobs", "1"), "--output is None; expected a folder, since --jobs is given"),
    (("--backend", "dask"), "--backend is 'dask'; expected nothing without --jobs"),
    (("--address", "a:1"), "--address is 'a:1'; expected nothing without --jobs"),
    (("--jobs", "1", "-o", "out", "--address", "a:1"), "expected nothing with --backend loky"),
])  # fmt: skip
def test_options_that_do_not_fit_together_are_refused(run, fitted, parts, words, message):
    outcome = run("predict", fitted, parts, *words)
    assert outcome.code == 2
    assert message in outcome.error


class Mortal(Task):
    """A task whose second prediction ends its process, once."""

    def function(self, name):
        """Return a function that copies its input."""
        return _copy


def _copy(run: str, source: Path, output: Path, *, device: str) -> None:
    if source.name == "part.1.csv" and not (run_marker := Path(run, "killed")).exists():
        run_marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    output.write_bytes(source.read_bytes())


@pytest.mark.slow
def test_the_part_of_a_worker_that_was_killed_is_given_to_another_one(parts, tmp_path, capsys):
    task = Mortal(**vars(TASKS["text"]))
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    with workers("loky", 2):
        predict_parts(task, str(run), parts, out, (), device="cpu", n_jobs=2)
    assert (run / "killed").exists()
    for path in parts.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()
    assert "workers are started again" in capsys.readouterr().err
