"""Recipes come from whatever package brings them."""

from __future__ import annotations

from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from representer import installed
from representer.errors import ArgumentError, MissingExtraError
from representer.tasks.recipe import Recipe, Request, installed_recipes


def test_without_any_recipe_the_package_is_not_installed(monkeypatch):
    monkeypatch.setattr(installed, "entry_points", lambda group: EntryPoints([]))
    with pytest.raises(MissingExtraError, match="pip install"):
        installed_recipes()


def test_a_run_needs_a_seed():
    with pytest.raises(ArgumentError, match="at least one seed"):
        Request(Path(), Path(), seeds=())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": ("gru",)}, "cells is 'gru'; expected some of a, b"),
        ({"datasets": ("d",)}, "datasets is 'd'; expected nothing, for this recipe"),
        ({"preset": "mine"}, "preset is 'mine'; expected 'paper'"),
        ({"lengths": (3,)}, "lengths is .* expected nothing, for this recipe"),
    ],
)
def test_a_recipe_refuses_what_it_does_not_have(tmp_path, changes, message):
    done = []
    recipe = Recipe(
        "toy", "a toy", "Table 0", lambda request: done.append(request) or tmp_path,
        cells=("a", "b"), options=("vectors",),
    )  # fmt: skip
    assert recipe.run(Request(tmp_path, tmp_path, cells=("b",), vectors="v.txt")) == tmp_path
    with pytest.raises(ArgumentError, match=message):
        recipe.run(Request(tmp_path, tmp_path, **changes))
    assert len(done) == 1
