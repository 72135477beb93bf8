"""Optional packages: what is there, and what is refused without them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from representer.errors import MissingExtraError
from representer.tasks import options
from representer.tasks.options import PACKAGES, is_importable, package_version, require


def test_every_package_is_in_the_extra_that_is_named():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for package in PACKAGES:
        listed = project["optional-dependencies"][package.extra]
        assert package.name in [re.split(r"[\[>=]", line)[0] for line in listed]


def test_a_missing_package_is_refused_at_the_beginning_with_its_fix(monkeypatch):
    monkeypatch.setattr(options, "is_importable", lambda module: module != "jinja2")
    with pytest.raises(
        MissingExtraError, match=r'needs jinja2: pip install "representer\[train\]"'
    ):
        require("fit text", "accelerate", "jinja2")
    require("fit text", "accelerate")


def test_what_is_not_installed_has_no_version():
    assert package_version("no-such-package-at-all") is None
    assert not is_importable("no_such_module_at_all")
    assert is_importable("torch")
