"""The gallery: at least twenty pictures, small, each with its command, and none out of date."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def gallery(bench, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # as the module would set it
    return bench("gallery")


def test_there_are_twenty_pictures_and_every_file_exists(gallery):
    entries = gallery.entries()
    assert len(entries) >= 20
    assert len({entry.file for entry in entries}) == len(entries)
    assert [entry.file for entry in entries if not (DOCS / entry.file).is_file()] == []
    assert [
        entry.link for entry in entries if not (DOCS / entry.link.partition("#")[0]).is_file()
    ] == []


def test_every_drawn_picture_has_a_function_and_an_entry(gallery):
    named = {entry.name for entry in gallery.entries() if not entry.command}
    assert {path.stem for path in gallery.FOLDER.iterdir()} == named
    assert [name for name in named if not callable(gallery.function_of(name))] == []


def test_the_pictures_are_small(gallery):
    sizes = {path.name: path.stat().st_size for path in gallery.FOLDER.iterdir()}
    assert {name: size for name, size in sizes.items() if size > gallery.LARGEST} == {}
    assert sum(sizes.values()) <= gallery.ALL


def test_the_page_is_what_the_command_writes(gallery):
    assert (DOCS / "gallery.md").read_text("utf-8") == gallery.text()
