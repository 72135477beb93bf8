"""``reproduce``: every option reaches the recipe."""

from __future__ import annotations

from pathlib import Path

from representer.tasks import recipe
from representer.tasks.recipe import Recipe, Request
from representer.training import generators

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
