"""The recipes of the installed packages: names, and refused requests."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from representer.cli.main import entry_point
from representer.errors import ArgumentError, DataError
from representer.models.cells import SIGNAL_CELLS
from representer.tasks.recipe import Request, installed_recipes
from representer_papers import kbdnn2018, rkm2019, string_graph2017
from representer_papers.kbdnn2018.networks import TITLES
from representer_papers.rkm2019.documents import DATASETS
from representer_papers.rkm2019.lfp import SIGNAL_SETS
from representer_papers.string_graph2017.sentiment import DATASETS as TREEBANK_SETS

PAPERS = (kbdnn2018, rkm2019, string_graph2017)
RECIPES = {name: recipe for paper in PAPERS for name, recipe in paper.RECIPES.items()}


def test_the_package_announces_its_recipes(capsys):
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    entries = tomllib.loads(pyproject.read_text())["project"]["entry-points"]
    modules = entries["representer.recipes"].values()
    assert set(modules) == {paper.__name__ for paper in PAPERS}
    assert installed_recipes() == RECIPES
    assert {name: recipe.name for name, recipe in RECIPES.items()} == {n: n for n in RECIPES}
    assert entry_point(["reproduce", "list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(RECIPES)


def test_the_list_as_json_has_every_row_with_differences_and_hours(tmp_path, capsys):
    line = {"row": "kbrn", "hours": 0.02, "status": "finished", "smoke": False, "planned": 100,
            "paper": 1000}  # fmt: skip
    lines = [line, line | {"hours": 0.04}, line | {"status": "paused", "hours": 9.0}]
    text = "\n".join(json.dumps(line) for line in lines) + "\n"
    (tmp_path / "kbrn-charging.jsonl").write_text(text, encoding="utf-8")
    assert entry_point(["reproduce", "list", "--json", "--record", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["recipe"] for row in rows} == set(RECIPES)
    shown = {(row["recipe"], row["preset"], row["row"]): row for row in rows}
    assert len(shown) == len(rows)
    for name, recipe in RECIPES.items():
        for preset in recipe.presets:
            for cell in recipe.cells or (None,):
                assert shown[name, preset, cell]["table"] == recipe.source
    of_code = shown["kbrn-charging", "authors_code", "kbrn"]
    assert of_code["hours"] == 0.3
    assert of_code["differences"] == ["charges from 1 to 10; the paper has 0 to 9"]
    assert shown["kbrn-charging", "paper", "kbrn"]["differences"] == []
    assert shown["kbrn-charging", "paper", "lstm"]["hours"] is None


def test_a_request_lists_its_differences_from_the_print_before_it_trains(tmp_path, capsys):
    recipe = RECIPES["string-sentiment"]
    whole = Request(tmp_path, tmp_path, seeds=recipe.seeds, vectors="glove.840B.300d.txt")
    assert recipe.differences_of(whole) == ["a constant decay of 0.5; the paper prints none"]
    part = Request(tmp_path / "none", tmp_path, budget=0.1)
    with pytest.raises(DataError):
        recipe.run(part)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"differs from L17 Table 2: {line}" for line in recipe.differences_of(part)]
    assert printed[1:] == [
        "differs from L17 Table 2: no pretrained word vectors (--vectors FILE); the paper has "
        "GloVe 840B",
        "differs from L17 Table 2: 1 of 5 seeds (--seeds)",
        "differs from L17 Table 2: 0.1 of the training (--budget)",
    ]


def test_an_unknown_recipe_gets_a_suggestion(capsys):
    assert entry_point(["reproduce", "rkm-document"]) == 2
    assert "Did you mean 'rkm-documents'?" in capsys.readouterr().err


def test_a_recipe_lists_its_data_sets_and_cells():
    assert RECIPES["rkm-documents"].datasets == tuple(DATASETS)
    assert RECIPES["rkm-lfp"].datasets == tuple(SIGNAL_SETS)
    assert RECIPES["string-sentiment"].datasets == tuple(TREEBANK_SETS)
    for name in ("rkm-documents", "rkm-lfp"):
        assert {*RECIPES[name].cells} - {"band-power"} <= SIGNAL_CELLS.keys()
    for name in ("kbrn-charging", "kbrn-long-term"):
        assert {*RECIPES[name].cells} <= TITLES.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_refuses_cells_data_sets_and_options_that_it_does_not_have(name, tmp_path):
    recipe = RECIPES[name]
    unknown = {
        "cells": ("gru",), "datasets": ("iris",), "preset": "mine", "lengths": (1,),
        "filter_lengths": (2,), "vectors": "a.txt",
    }  # fmt: skip
    for option, value in unknown.items():
        if option not in recipe.options or option == "lengths":
            with pytest.raises(ArgumentError, match=f"^{option} is "):
                recipe.run(Request(tmp_path, tmp_path / "out", **{option: value}))
    assert not (tmp_path / "out").exists()
