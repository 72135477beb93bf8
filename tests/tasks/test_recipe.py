"""Recipes come from whatever package brings them."""

from __future__ import annotations

from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from representer.errors import ArgumentError, MissingExtraError
from representer.tasks import recipe
from representer.tasks.recipe import Request, installed_recipes


def test_without_any_recipe_the_package_is_not_installed(monkeypatch):
    monkeypatch.setattr(recipe, "entry_points", lambda group: EntryPoints([]))
    with pytest.raises(MissingExtraError, match="pip install"):
        installed_recipes()


def test_a_run_needs_a_seed():
    with pytest.raises(ArgumentError, match="at least one seed"):
        Request(Path(), Path(), seeds=())
