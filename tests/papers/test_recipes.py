"""The recipes of the installed packages: names, and refused requests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from representer.cli.main import entry_point
from representer.errors import ArgumentError
from representer.models.cells import SIGNAL_CELLS
from representer.tasks.recipe import Request, installed_recipes
from representer_papers import kbdnn2018, own_data, rkm2019, string_graph2017
from representer_papers.kbdnn2018.networks import TITLES
from representer_papers.rkm2019.datasets import DATASETS
from representer_papers.rkm2019.lfp_sets import SIGNAL_SETS
from representer_papers.string_graph2017.treebank import DATASETS as TREEBANK_SETS

PAPERS = (kbdnn2018, own_data, rkm2019, string_graph2017)
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
