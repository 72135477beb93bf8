"""The lines of results: what a run appends, and which line counts."""

from __future__ import annotations

import errno
import json
import os
import runpy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from representer.errors import DataError, Interrupted, StorageError, TrainingError
from representer.storage.checkpoint import Checkpoint, save_step
from representer.storage.run import MODEL, RunFolder
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018 import RECIPES
from representer_papers.shared.tables import (
    Measure,
    Run,
    accuracy,
    append_line,
    panels,
    read_lines,
    run_missing,
    shown_command,
)

TEST = {"accuracy": 0.75, "accuracy_interval": [0.65, 0.85]}
MEASURE = Measure(
    "a-recipe", "test accuracy", accuracy, "epochs", 200,
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    seed: int
    epochs: int = 4


def train(error: Exception | None, folder: RunFolder, config: Config, _: object) -> dict:
    folder.write_text("metrics.jsonl", '{"step": 30, "epoch": 3}\n')
    if error is not None:
        raise error
    return {"epochs": config.epochs, "stopped_by": "epochs", "test": TEST}


def go(out: Path, *seeds: int, error: Exception | None = None, **options) -> None:
    request = Request(Path("/data/sets"), out, command="representer --data /data/sets", **options)
    runs = [Run(out / "fine" / f"gated-seed{seed}", Config(seed), "epochs") for seed in seeds]
    run_missing(request, MEASURE, runs, tuple, partial(train, error))


def test_a_finished_run_appends_one_line_with_all_that_a_page_needs(tmp_path: Path):
    go(tmp_path, 0)
    (line,) = read_lines(tmp_path / "results.jsonl").values()
    hours, date, digest = (line.pop(name) for name in ("hours", "date", "settings"))
    machine = json.loads((tmp_path / "fine/gated-seed0/machine.json").read_text())
    assert line == {
        "recipe": "a-recipe", "variant": "fine/gated", "row": None, "seed": 0, "status": "finished",
        "unit": "epochs", "steps": 4, "planned": 4, "paper": 200, "metric": "test accuracy",
        "value": 0.75, "interval": [0.65, 0.85], "machine": machine["chip"],
        "commit": machine["commit"], "smoke": False, "command": "representer --data DIR",
        "curve": None,
    }  # fmt: skip
    assert hours is None or 0 < hours < 0.1
    assert len(date) == len("2026-01-01")
    assert len(digest) == 12


def test_a_repeated_command_appends_nothing_and_seeds_share_the_digest(tmp_path: Path):
    go(tmp_path, 0, 1)
    go(tmp_path, 0, 1)
    go(tmp_path, 0, 1, table_only=True)
    lines = (tmp_path / "results.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 2
    assert len({json.loads(line)["settings"] for line in lines}) == 1


def test_a_paused_run_says_how_far_it_came_and_its_last_line_counts(tmp_path: Path):
    with pytest.raises(Interrupted):
        go(tmp_path, 0, error=Interrupted("stopped", 130))
    (line,) = read_lines(tmp_path / "results.jsonl").values()
    assert [line[name] for name in ("status", "steps", "planned", "value", "interval")] == [
        "paused", 3, 4, None, None,
    ]  # fmt: skip
    go(tmp_path, 0)
    assert len((tmp_path / "results.jsonl").read_text("utf-8").splitlines()) == 2
    (line,) = read_lines(tmp_path / "results.jsonl").values()
    assert (line["status"], line["value"]) == ("finished", 0.75)


def test_a_run_that_diverges_has_a_line_without_a_value(tmp_path: Path):
    go(tmp_path, 0, error=TrainingError("the loss is not finite"))
    (line,) = read_lines(tmp_path / "results.jsonl").values()
    assert (line["status"], line["value"]) == ("diverged", None)


def test_lines_go_to_the_file_of_the_recipe_in_the_requested_folder(tmp_path: Path):
    go(tmp_path / "out", 0)
    record = tmp_path / "docs" / "runs"
    go(tmp_path / "out", 0, record=record, table_only=True)
    assert [path.name for path in record.iterdir()] == ["a-recipe.jsonl"]
    assert read_lines(record) == read_lines(tmp_path / "out/results.jsonl")


def test_a_broken_line_is_named(tmp_path: Path):
    go(tmp_path, 0)
    with (tmp_path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"recipe": "a-rec\n')
    with pytest.raises(DataError, match=r"results\.jsonl, line 2: this is not the line of a run"):
        read_lines(tmp_path / "results.jsonl")


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    go(tmp_path, 0)
    whole = (tmp_path / "results.jsonl").read_bytes()

    def full(file: int) -> None:  # what was written before is there by now
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        request = Request(Path("/data/sets"), tmp_path)
        with pytest.raises(StorageError, match="no space left on device"):
            append_line(request, MEASURE, tmp_path / "fine" / "gated-seed0", "paused")
    assert (tmp_path / "results.jsonl").read_bytes() == whole


def test_a_finished_run_with_a_model_that_nothing_continues_keeps_no_checkpoints(tmp_path: Path):
    def trained(folder: RunFolder, config: Config, _: object) -> dict[str, Any]:
        (folder.checkpoints / "step-000000030.ckpt").write_bytes(bytes(8))
        if config.seed:
            folder.write_bytes(MODEL, bytes(8))
        ended = {"stopped_by": "patience"} if config.seed == 1 else {}
        return train(None, folder, config, None) | ended

    request = Request(Path("/data/sets"), tmp_path)
    runs = [Run(tmp_path / f"gated-seed{seed}", Config(seed), "epochs") for seed in range(3)]
    runs.append(Run(tmp_path / "gated-seed3", Config(3)))
    run_missing(request, MEASURE, runs, tuple, trained)
    kept = [(run.folder / "checkpoints").exists() for run in runs]
    assert kept == [True, False, True, False]  # the third resumes when it may take more epochs


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "runs_page.py"))


def test_the_page_is_made_from_the_lines_alone(tmp_path: Path, tool: dict[str, Any]):
    go(tmp_path / "out", 0, 1, record=tmp_path / "runs")
    go(tmp_path / "smoke", 2, record=tmp_path / "runs", smoke=True)
    text = tool["page_of"](read_lines(tmp_path / "runs").values(), "a command")
    assert "## a-recipe: test accuracy\n\n| variant | seed 0 | seed 1 | mean | share |" in text
    assert "| `fine/gated` | 0.75 | 0.75 | 0.7500 ± 0.0000 | 2.0 % | " in text
    assert "smoke" not in text


def test_a_row_of_many_seeds_has_their_range(tmp_path: Path, tool: dict[str, Any]):
    go(tmp_path / "out", *range(13), record=tmp_path / "runs")
    lines = [*read_lines(tmp_path / "runs").values()]
    lines[0]["value"], lines[1]["value"], lines[2]["value"] = 0.5, None, 0.875
    text = tool["page_of"](lines, "a command")
    assert "| variant | runs | least | greatest | mean | share |" in text
    assert "| `fine/gated` | 12 of 13 | 0.5 | 0.875 | 0.7396 ± " in text


def test_a_line_names_no_local_folder(tmp_path: Path):
    home = "/" + "home/a"  # in two parts, for the test that no file holds such a path
    command = f"representer reproduce x --data /data/sets --vectors {home}/glove.txt"
    options = f"--table-only --record {home}/repository/runs --out=/tmp/runs/x"
    request = Request(Path("/data/sets"), tmp_path, command=f"{command} {options}")
    shown = "representer reproduce x --data DIR --vectors glove.txt --out=x"
    assert shown_command(request) == shown
    plain = "representer reproduce x --datasets 4bit --data data --vectors data/v.npz"
    request = Request(Path("data"), tmp_path, command=plain)  # as where no --data is given
    shown = "representer reproduce x --datasets 4bit --data DIR --vectors DIR/v.npz"
    assert shown_command(request) == shown


def test_a_line_has_the_curve_of_its_log(tmp_path: Path):
    request = Request(Path("/data/sets"), tmp_path)
    (tmp_path / "gated-seed0").mkdir()
    log = [{"epoch": epoch, "valid_accuracy": epoch / 8} for epoch in (1, 2)]
    (tmp_path / "gated-seed0" / "metrics.jsonl").write_text("\n".join(map(json.dumps, log)))
    (tmp_path / "gated-seed0" / "recipe.json").write_text('{"seed": 0, "epochs": 4}')
    measure = replace(MEASURE, curve="valid_accuracy")
    append_line(request, measure, tmp_path / "gated-seed0", "paused")
    (line,) = read_lines(tmp_path / "results.jsonl").values()
    assert (line["steps"], line["curve"]) == (2, [[1, 0.125], [2, 0.25]])


def test_a_run_that_pauses_in_its_first_epoch_has_no_epochs(tmp_path: Path):
    folder = tmp_path / "gated-seed0"
    folder.mkdir()
    (folder / "recipe.json").write_text('{"seed": 0, "epochs": 4, "steps": 4}')
    (folder / "checkpoints").mkdir()
    save_step(folder / "checkpoints", Checkpoint(720, {}, {}, {}), report=lambda _: None)
    request = Request(Path("/data/sets"), tmp_path)
    append_line(request, MEASURE, folder, "paused")
    append_line(request, replace(MEASURE, unit="steps"), folder, "paused")
    lines = map(json.loads, (tmp_path / "results.jsonl").read_text("utf-8").splitlines())
    assert [line["steps"] for line in lines] == [0, 720]


def test_the_pages_of_runs_agree_with_their_lines(tool: dict[str, Any]):
    results = ROOT / "docs" / "results"
    lines = read_lines(results / "runs")
    texts = "".join(path.read_text("utf-8") for path in (results / "runs").iterdir())
    assert len(lines) > 300
    assert not any(folder in texts for folder in ("/home/", "/root/", "/tmp/", "/" + "work/"))
    text_of = runpy.run_path(str(ROOT / "benchmarks/result_pages.py"))["text_of"]
    shown, made = text_of(results, "runs"), tool["page_of"](lines.values(), "")
    assert shown.splitlines()[3:] == made.splitlines()[3:]
    curves = text_of(results, "learning-curves")
    for name, panel in tool["curves_of"](lines.values()).items():
        section = curves.partition(f"\n## {name}: ")[2].partition("\n## ")[0]
        for row in panel["rows"]:
            assert f"| {' | '.join(map(str, row))} |" in section


def test_a_panel_shows_the_figures_of_the_paper_as_dashed_lines(tmp_path: Path, monkeypatch):
    drawn, draw = [], Axes.axhline
    monkeypatch.setattr(
        Axes, "axhline", lambda axes, y, **how: drawn.append((y, how["linestyle"])) or draw(axes, y)
    )
    panel = {"title": "A", "lines": {"a": [(1, 3), (90, 2)]}, "levels": {"a": 2.5}, "log": "x"}
    panels(tmp_path / "a.svg", [panel | {"xlim": (None, 120)}], columns=1, title="Curves")
    assert drawn == [(2.5, "--")]
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")


def test_lines_are_committed_with_their_pages():
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "/runs/" in ignored  # of the root alone
    assert "runs/" not in ignored  # would hide docs/results/runs as well


def test_a_recipe_writes_its_lines(tmp_path: Path):
    request = Request(tmp_path, tmp_path / "out", budget=3e-6, record=tmp_path / "runs")
    RECIPES["kbrn-xor"].run(request)
    lines = read_lines(tmp_path / "runs" / "kbrn-xor.jsonl")
    assert len(lines) == 12  # two numbers of bits, with and without a penalty, three sizes
    assert {(line["unit"], line["steps"], line["planned"]) for line in lines.values()} == {
        ("updates", 3, 3)
    }
    assert all(line["value"] > 0 for line in lines.values())
    assert "2bit-50-l1" in {line["variant"] for line in lines.values()}
