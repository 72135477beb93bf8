"""The table of statements in docs/equations.md names files and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "equations.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\[(\w+)\]: (\S+)$", TEXT, re.MULTILINE))
ROWS = [
    line.split(" | ")
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| statement |", "| --- |"))
]


def test_every_link_of_the_page_leads_to_a_file():
    targets = [*FILES.values(), *re.findall(r"\]\((\S+?)\)", TEXT)]
    missing = [target for target in targets if not (PAGE.parent / target).is_file()]
    assert targets
    assert missing == []


def test_every_reference_of_the_page_has_a_target():
    used = {label or text for text, label in re.findall(r"\[([^\]]+)\](?:\[(\w+)\])?(?!\()", TEXT)}
    assert {name for name in used if re.fullmatch(r"\w+", name)} == set(FILES)


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip("| ") for row in ROWS])
def test_every_test_of_a_row_exists_in_the_file_that_it_names(row):
    groups = re.findall(r"\[(\w+)\]: ((?:`test_\w+`(?:, )?)+)", row[3])
    assert groups or "not in the library yet" in row[2]
    for label, names in groups:
        source = (PAGE.parent / FILES[label]).read_text(encoding="utf-8")
        for name in re.findall(r"test_\w+", names):
            assert f"def {name}(" in source


def test_every_theorem_is_in_the_table():
    listed = set(re.findall(r"`(test_\w+)`", TEXT))
    sources = [PAGE.parent / target for target in FILES.values() if "/tests/" in target]
    theorems = {
        name
        for source in sources
        for name in re.findall(
            r"^def (test_(?:\d|table|section|footnote|theorem|lemma|proposition|appendix)\w+)",
            source.read_text(),
            re.MULTILINE,
        )
    }
    assert theorems
    assert theorems - listed == set()
