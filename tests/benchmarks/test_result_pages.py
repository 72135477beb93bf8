"""Pages of results: a command writes its page, or the section of its name on another page."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = "# Title\n\nText.\n\n```sh\n# a comment\nmake x\n```\n\n## Head\n\n| a |\n"


@pytest.fixture
def pages(bench):
    return bench("result_pages")


@pytest.fixture
def folder(pages, tmp_path: Path) -> Path:
    sections = [pages.section(name, PAGE) for name in ("one", "two")]
    (tmp_path / "joined.md").write_text("# Joined\n\n" + "\n".join(sections))
    (tmp_path / "alone.md").write_text(PAGE)
    return tmp_path


def test_a_section_reads_as_the_page_that_was_joined(pages, folder):
    assert [pages.text_of(folder, name) for name in ("one", "two", "alone")] == [PAGE] * 3
    assert "\n### Head\n" in (folder / "joined.md").read_text()
    with pytest.raises(FileNotFoundError):
        pages.text_of(folder, "three")


def test_a_page_that_is_written_replaces_its_section_alone(pages, folder):
    new = PAGE.replace("| a |", "| b |")
    home, text = pages.placed(folder / "one.md", new)
    assert home == folder / "joined.md"
    home.write_text(text)
    assert [pages.text_of(folder, name) for name in ("one", "two")] == [new, PAGE]
    assert pages.placed(folder / "alone.md", new) == (folder / "alone.md", new)


def test_a_link_leads_to_the_section(pages, folder):
    assert pages.link_of(folder, "two") == "joined.md#two"
    assert pages.link_of(folder, "alone") == "alone.md"


def test_pages_beside_their_section_are_folded_into_it(pages, folder, monkeypatch, capsys):
    monkeypatch.setattr(pages, "RESULTS", folder)
    (folder / "two.md").write_text(PAGE.replace("Text", "New text"))
    pages.main()
    assert capsys.readouterr().out == "two.md → joined.md\n"
    assert not (folder / "two.md").exists()
    assert "New text" in pages.text_of(folder, "two")


def test_a_report_is_published_into_its_section(bench, folder):
    bench("report").publish(PAGE.replace("Text", "Published"), folder / "one.md")
    assert not (folder / "one.md").exists()
    assert "Published" in (folder / "joined.md").read_text()
