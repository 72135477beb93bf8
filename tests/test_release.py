"""Everything that names the version names the same one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import representer

ROOT = Path(__file__).parent.parent


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.findall(
        r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    version, date = released[0]
    assert version == project["version"] == representer.__version__ == citation["version"]
    assert date == str(citation["date-released"])
    assert citation["license"] == project["license"]


def test_the_cited_papers_are_those_of_the_bibliography() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    papers = (ROOT / "CITATIONS.bib").read_text("utf-8").partition("% Works that")[0]
    titles = re.findall(r"^  title\s+= \{(.*)\},$", papers, re.MULTILINE)
    assert [one["title"] for one in citation["references"]] == titles
    for one in citation["references"]:
        for author in one["authors"]:
            assert f"{author['family-names']}, {author['given-names']}" in papers


def test_a_release_begins_with_what_is_new_in_ten_lines() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    section = re.split(r"^## \[[\d.]+\].*$", text, flags=re.MULTILINE)[1]
    first = section.strip().split("\n\n")[0]
    assert not first.startswith("#")
    assert len(first.splitlines()) <= 10
    assert "### Breaking changes" in section
