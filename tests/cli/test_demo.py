"""Tests of ``representer demo``: what it trains, what it serves, and to whom."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import listening
from representer.cli import main, share
from representer.errors import DataError
from representer.tasks.results import examples_of

Run = Any
SIZES = [
    "--hidden-size", "2", "--epochs", "1", "--max-steps", "2", "--threads", "1", "--answer",
    "kernel",
]  # fmt: skip


def test_without_serve_it_trains_what_make_demo_always_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, Any]] = []
    command = main.load("fit text")
    monkeypatch.setattr(command, "run", lambda arguments: seen.append(dict(arguments)))
    commands = share.COMMANDS | {"fit text": command}
    monkeypatch.setattr(main, "load", commands.__getitem__)
    assert main.entry_point(["demo"]) == 0
    assert main.entry_point(["fit", "text", "--demo", "--out", "runs/demo", "--resume"]) == 0
    assert seen[0] == seen[1]
    assert seen[0]["hidden_size"] == 64  # of the demo


def test_examples_of_the_training_file_are_its_test_part(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"text number {k} is {'good' if k % 2 else 'bad'},{k % 2}" for k in range(40)]
    Path("a.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    Path("b.csv").write_text("\n".join(["text,label", *rows[:7]]) + "\n")
    outcome = run("fit", "text", "a.csv", "--out", "run", *SIZES)
    assert outcome.code == 0, outcome.err
    lines = json.loads(Path("run/splits.json").read_text())["test"]["lines"]
    found = examples_of("run", "a.csv")
    assert [int(one.name.split()[1].rstrip(":")) for one in found] == lines
    assert {one.value for one in found} == {rows[line - 2].split(",")[0] for line in lines}
    assert len(examples_of("run", "b.csv")) == 7
    assert examples_of("run", None) == []  # the folder may be somebody else's
    with pytest.raises(DataError):
        examples_of("run", "c.csv")


def test_the_signal_demo_shows_subjects_that_training_did_not_have(
    run: Run, tmp_path: Path
) -> None:
    outcome = run(
        "fit", "signal", "--demo", "--out", str(tmp_path / "run"), "--answer", "kernel",
        "--jobs", "1", "--folds", "2",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = examples_of(str(tmp_path / "run"), None)
    assert len({one.group for one in found}) == 6
    assert found[0].value.shape == (4, 200)


@pytest.mark.slow
def test_the_live_view_answers_and_stops(trained: Path) -> None:
    with listening("demo", str(trained), "--serve") as (process, answer):
        assert "Live view of a text model" in answer("")
        assert "prediction" in json.loads(answer("/live", {"input": "good film"}))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
    assert process.returncode % 256 in (130, 256 - signal.SIGINT)
    assert "Traceback" not in said
