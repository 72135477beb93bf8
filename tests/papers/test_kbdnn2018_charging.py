"""The charging problem as a recipe."""

from __future__ import annotations

import pytest

from representer.cli.main import entry_point
from representer.errors import ArgumentError
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018.charging import CELLS, CHARGING, Setting, train


def test_a_learned_unit_charges_within_a_few_updates():
    found = train(Setting("kbrn", "authors_code", 0, 60, 500))
    updates, shares = zip(*found["curve"], strict=True)
    assert updates[0] == 1
    assert updates[-1] == 60
    assert shares[-1] > 0.75  # the better of the constant answers is right at 0.55
    assert len(found["function"]) == 201


def test_a_smoke_run_writes_table_and_picture_through_the_command_line(tmp_path, capsys):
    command = ["reproduce", "kbrn-charging", "--smoke", "--out", str(tmp_path / "out")]
    assert entry_point(command) == 0, capsys.readouterr().err
    table = (tmp_path / "out/table.md").read_text("utf-8")
    for cell in CELLS:
        assert f"(`{cell}`) | 0 | 3 | – | – | – |" in table
    assert "charges from 0 to 9" in table
    assert "accuracy on the test sequences" in (tmp_path / "out/accuracy.svg").read_text("utf-8")
    (tmp_path / "out/paper-rnn-seed0.json").unlink()
    assert entry_point([*command, "--table-only"]) == 0
    assert "`rnn`" not in (tmp_path / "out/table.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"cells": ("gru",)}, "cells is 'gru'; expected some of kbrn"), ({"vectors": "x"}, "vectors"),
     ({"preset": "mine"}, "preset is 'mine'")],
)  # fmt: skip
def test_what_the_recipe_does_not_have_is_refused(tmp_path, asked, message):
    with pytest.raises(ArgumentError, match=message):
        CHARGING.run(Request(tmp_path, tmp_path / "out", **asked))
