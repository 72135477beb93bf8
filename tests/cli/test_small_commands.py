"""``cells``, ``doctor``, ``generate`` and ``report``."""

from __future__ import annotations

import io
import json
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.conftest import chains, listening, write_table
from representer.cli import use
from representer.cli.main import entry_point
from representer.cli.share import listen
from representer.data.signals import synthetic_recordings, write_npz
from representer.options.registry import TASKS
from representer.serving import Limits
from representer.tasks import doctor, language, recipe
from representer.tasks.recipe import Recipe, Request
from representer.training import generators
from undrawn import without_drawings


def test_the_doctor_prints_the_rows_of_the_table_as_json(run, monkeypatch):
    table = run("doctor").out.splitlines()
    outcome = run("doctor", "--json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert data["usable"] is True
    assert len(table) == len(data["findings"]) + 2  # an empty line and the summary
    for line, finding in zip(table, data["findings"], strict=False):
        assert finding["what"] in line
        assert line.lower().startswith(finding["status"])
        assert line.endswith(finding["detail"])
    monkeypatch.setattr(doctor, "TOLERANCE", -1.0)
    failing = run("doctor", "--json")
    assert (failing.code, json.loads(failing.out)["usable"]) == (1, False)
    assert "Not usable yet: LSTM" in run("doctor").out


def test_generate_shows_every_token_as_soon_as_it_is_sampled(monkeypatch):
    events: list[str] = []

    class Recorder(io.StringIO):
        def write(self, text: str) -> int:
            events.append(text)
            return len(text)

        def flush(self) -> None:
            events.append("flush")

    def tokens(*arguments, **how):
        for token in ("b", "c"):
            assert events[-1] == "flush"
            yield token

    monkeypatch.setattr(language, "generate", tokens)
    monkeypatch.setattr(use, "task_of_run", lambda run, command: TASKS["language"])
    monkeypatch.setattr(sys, "stdout", Recorder())
    assert entry_point(["generate", "run", "--prompt", "a"]) == 0
    assert [event for event in events if event != "flush"] == ["a", "b", "c", "\n"]


def test_a_report_can_be_written_elsewhere_for_a_run_on_a_disk_that_is_read_only(
    run, trained, tmp_path
):
    page, before = tmp_path / "page.html", (trained / "report.html").stat().st_mtime_ns
    assert run("report", trained, "--out", page).out.strip() == str(page)
    expected = (trained / "report.html").read_text(encoding="utf-8")
    assert without_drawings(page.read_text(encoding="utf-8")) == without_drawings(expected)
    assert (trained / "report.html").stat().st_mtime_ns == before


# ``drift``: two files of every task that has a kernel of single objects.


MORE = ["--permutations", "99"]


def test_texts_of_other_words_differ_and_the_same_do_not(run, tmp_path):
    first = write_table(tmp_path / "first.csv")
    lines = first.read_text().splitlines()
    second = tmp_path / "second.csv"
    second.write_text("\n".join([lines[0], *(line.replace("a", "other a") for line in lines[1:])]))
    outcome = run("drift", first, second, *MORE)
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["p_value"] == 0.01
    others = [one for one in found["differences"] if "other" in one["what"]]
    assert others
    assert all(one["first"] == 0 < one["second"] for one in others)
    assert "the texts of both files differ at level 0.05: p = 0.01" in outcome.err
    again = run("drift", first, first, *MORE, "--limit", "20")
    assert json.loads(again.out)["counts"] == [20, 20]
    assert "show no difference" in again.err
    assert run("drift", first, second, "--limit", "1").code == 2


def test_graphs_with_other_labels_of_nodes_differ(run, tmp_path):
    files = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, label in zip(files, ("few", "many"), strict=True):  # a's
        chosen = [json.dumps(one) for one in chains(40) if one["label"] == label]
        path.write_text("\n".join(chosen))
    found = json.loads(run("drift", *files, *MORE).out)
    assert found["p_value"] < 0.05
    assert "least_like_the_first_file" in " ".join(found)


def test_subjects_are_exchanged_as_a_whole_and_files_must_fit_together(run, tmp_path):
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    for k, path in enumerate(paths):
        drawn = synthetic_recordings(subjects=4 - k // 2, windows=6, seed=k)
        if k == 1:  # one subject is louder
            drawn.signals[drawn.subjects == drawn.subjects[0]] *= 100
        write_npz(path, drawn)
    outcome = run("drift", *paths[:2], *MORE)
    assert json.loads(outcome.out)["p_value"] > 0.1
    windows = run("drift", paths[1], paths[2], *MORE)
    assert json.loads(windows.out)["p_value"] < 0.1
    assert "subjects" not in outcome.err
    assert "the files have 4 and 3 subjects. With fewer than 4 in each" in windows.err
    write_npz(paths[1], synthetic_recordings(subjects=4, windows=4, seconds=2.0))
    assert "those of" in run("drift", *paths[:2]).error
    ignored = run("drift", *paths[:2], "--events", "T1")
    assert ignored.error.startswith("error: --events is 'T1'; expected nothing, since only ")


def test_texts_of_a_group_are_exchanged_together(run, tmp_path):
    paths = [tmp_path / name for name in ("first.csv", "second.csv")]
    for k, path in enumerate(paths):  # each author has words of their own
        rows = [f"{author}{k},{author}{k} word {n % 3}" for author in "abcde" for n in range(8)]
        path.write_text("author,text\n" + "\n".join(rows))
    options = [*MORE, "--text", "text"]
    alone, together = (
        run("drift", *paths, *options),
        run("drift", *paths, *options, "--groups", "author"),
    )
    assert json.loads(alone.out)["p_value"] == 0.01
    assert json.loads(together.out)["p_value"] > 0.02


# Tests of ``representer serve``: addresses, tokens, and how it stops.


Run = Any


def test_a_short_token_is_rejected(
    run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRESENTER_TOKEN", "short")
    outcome = run("serve", str(trained), "--host", "0.0.0.0")
    assert outcome.code == 2
    assert "16 or more" in outcome.err
    assert "short" not in outcome.err


def test_an_answer_does_not_wait_for_a_full_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[int] = []

    def run_server(server: Any, sockets: list[socket.socket]) -> None:
        with sockets[0] as listening:
            delays.append(listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr("uvicorn.Server.run", run_server)
    app: Any = SimpleNamespace(state=SimpleNamespace(process=SimpleNamespace(start=lambda: None)))
    listen(app, Limits(), "127.0.0.1", 0, lambda address: address)
    assert delays == [1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_server_answers_and_stops(trained: Path, kind: signal.Signals, code: int) -> None:
    with listening("serve", str(trained)) as (process, answer):
        found = json.loads(answer("/predict", {"inputs": ["good film"]}))
        assert "prediction" in found["predictions"][0]
        process.send_signal(kind)
        said = process.communicate(timeout=120)[1]
    assert process.returncode % 256 == code or process.returncode == -kind
    assert "Traceback" not in said


# ``reproduce``: every option reaches the recipe.


OPTIONS = {
    "--data": "some/data", "--out": "some/out", "--budget": "0.25", "--seeds": "3,4",
    "--datasets": "a,b", "--cells": "lstm, rkm-lstm", "--filter-lengths": "1,2",
    "--lengths": "5,6", "--preset": "authors_code", "--vectors": "v.txt", "--threads": "2",
}  # fmt: skip


def test_every_option_of_reproduce_reaches_the_recipe(run, tmp_path, monkeypatch):
    requests: list[Request] = []

    def record(request: Request) -> Path:
        requests.append(request)
        table = tmp_path / "table.md"
        table.write_text("the table\n")
        return table

    made_up = Recipe(
        "made-up", "a title", "a source", record, cells=("lstm", "rkm-lstm"), datasets=("a", "b"),
        presets=("paper", "authors_code"), options=("filter_lengths", "lengths", "vectors"),
        seeds=(7, 8),
    )  # fmt: skip
    monkeypatch.setattr(recipe, "installed_recipes", lambda: {"made-up": made_up})
    monkeypatch.setattr(generators, "keep_freed_memory", lambda: True)
    monkeypatch.setattr("sys.argv", ["representer", "reproduce", "made-up", "--smoke"])
    words = [word for pair in OPTIONS.items() for word in pair]
    outcome = run("reproduce", "made-up", *words, "--smoke", "--table-only")
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"the table\n\n{tmp_path / 'table.md'}\n"
    assert run("reproduce", "made-up").code == 0
    given, default = requests
    assert given == Request(
        data=Path("some/data"), out=Path("some/out"), budget=0.25, seeds=(3, 4), smoke=True,
        datasets=("a", "b"), cells=("lstm", "rkm-lstm"), filter_lengths=(1, 2), lengths=(5, 6),
        preset="authors_code", vectors="v.txt", threads=2, table_only=True,
        command="representer reproduce made-up --smoke",
    )  # fmt: skip
    assert default == Request(
        default.data, Path("runs/made-up"), seeds=(7, 8), command=given.command
    )


def test_seeds_that_are_no_integers_are_refused_with_an_example(run, monkeypatch):
    made_up = Recipe("made-up", "a title", "a source", lambda request: Path())
    monkeypatch.setattr(recipe, "installed_recipes", lambda: {"made-up": made_up})
    monkeypatch.setattr(generators, "keep_freed_memory", lambda: True)
    outcome = run("reproduce", "made-up", "--seeds", "0;1")
    assert outcome.code == 2
    assert "--seeds is '0;1'; expected comma-separated integers" in outcome.error
