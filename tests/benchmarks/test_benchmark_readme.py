"""The README's figures and picture are those that its command writes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def readme(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("readme")


def test_the_figures_are_those_of_the_results(readme) -> None:
    page = (readme.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.with_figures(page) == page, "run: python benchmarks/readme.py"


def test_a_stale_figure_is_replaced(readme) -> None:
    page = (readme.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.with_figures(page.replace(" × |", "9 × |")) == page


def test_a_missing_figure_is_named(readme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = readme.result_pages.text_of(readme.RESULTS, "cpu")
    (tmp_path / "cpu.md").write_text(page.replace("| RKM-CIFG |", "| gone |"), encoding="utf-8")
    monkeypatch.setattr(readme, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match=r"cpu-speed\.md has no RKM-CIFG; its command"):
        readme.speed_table()


def test_a_page_without_its_block_is_refused(readme) -> None:
    with pytest.raises(SystemExit, match="no block '<!-- figure gain"):
        readme.with_figures("a page")


def test_the_picture_is_that_of_its_command(readme, tmp_path: Path) -> None:
    readme.draw(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_bytes() == readme.PICTURE.read_bytes()
