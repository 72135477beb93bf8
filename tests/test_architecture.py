"""The page of the library's parts is what its command writes, and the imports are as drawn."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# `layer.kernel` and `kernel.network(...)` import the module above both when they are called
UPWARD = {("nn", "duality"), ("kernels", "duality")}


@pytest.fixture
def architecture(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    yield importlib.import_module("architecture")
    sys.modules.pop("architecture", None)


@pytest.fixture
def imported(architecture):
    return architecture.imports()


def test_every_package_is_drawn_once(architecture):
    drawn = [name for row in architecture.layers() for name in row]
    src = ROOT / "src" / "representer"
    packages = {path.parent.name for path in src.glob("*/__init__.py")}
    modules = {path.stem for path in src.glob("*.py")} - {"__init__", "__main__"}
    assert sorted(drawn) == sorted(packages | modules | {"representer_papers"})


def test_no_package_imports_one_that_is_drawn_above_it_or_beside_it(architecture, imported):
    height = {name: k for k, row in enumerate(architecture.layers()) for name in row}
    found = {
        (name, each) for name, own in imported.items() if name != "__main__"
        for each in own if height[each] <= height[name]
    }  # fmt: skip
    assert found == UPWARD


def test_the_imports_are_those_of_the_packages(imported):
    assert {"ops", "functional"} <= imported["nn"]
    assert imported["functional"] == {"errors"}
    assert "nn" not in imported["ops"]


def test_a_row_moves_between_packages_of_which_one_imports_the_other(architecture, imported):
    stations = architecture.way()
    assert stations[0][0] == "data"
    assert stations[-1][0] == "estimators"  # each file counts where the row is first in it
    assert any("report/page.py" in files for _, files in stations)
    apart = [
        (one, other) for (one, _), (other, _) in pairwise(stations)
        if other not in imported[one] and one not in imported[other]
    ]  # fmt: skip
    assert apart == []


def test_every_file_on_the_way_exists(architecture):
    files = [file for _, own in architecture.way() for file in own]
    assert [file for file in files if not (architecture.SRC / file).is_file()] == []


def test_page_and_picture_are_what_the_command_writes(architecture, imported):
    rows, stations = architecture.layers(), architecture.way()
    assert architecture.PICTURE.read_text("utf-8") == architecture.drawn(rows, stations)
    assert architecture.PAGE.read_text("utf-8") == architecture.page(rows, imported, stations)
