"""The table of statements in docs/equations.md names files and tests that exist."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "equations.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\[(\w+)\]: (\S+)$", TEXT, re.MULTILINE))
ROWS = [
    line.split(" | ")
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| statement |", "| --- |"))
]


class Tables(HTMLParser):
    """The cells of every body row, and the text outside code, as a browser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.prose = ""
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        del self._inside[-1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if "code" not in self._inside:
            self.prose += data
        if {"td", "th"} & set(self._inside):
            self.rows[-1][-1] += data


def unescaped(text: str) -> str:
    return re.sub(r"\\([|_*])", r"\1", text)


RENDERED = Tables(markdown.markdown(TEXT, extensions=["tables"]))


def test_every_statement_is_a_row_of_five_cells_when_the_page_is_rendered():
    bodies = [row for row in RENDERED.rows if row[0] != "statement"]
    assert [row[0] for row in bodies] == [unescaped(row[0].strip("| ")) for row in ROWS]
    assert {len(row) for row in RENDERED.rows} == {5}
    assert all(row[1] and row[2] and row[3] for row in bodies)


def test_formulas_keep_their_underscores_and_stars_when_the_page_is_rendered():
    """Unescaped, a pair of them makes what is between them italic, in some renderers."""
    page = markdown.markdown(TEXT, extensions=["tables"])
    assert re.findall("<em>|<strong>", page) == []
    assert "\\" not in RENDERED.prose
    prose = re.sub(r"^\[\w+\]: .*$|`[^`]*`|\]\[\w+\]|\[\w+\]", "", TEXT, flags=re.MULTILINE)
    assert re.findall(r"(?<!\\)[_*]", prose) == []
    for formula in ("c_j(t) = λc_j(t−1) + c_{j−1}(t−1) ⊙ W^(j)x_t", "Σ_N σ_i²σ_f^{2N}"):
        assert any(formula in cell for row in RENDERED.rows for cell in row)


def test_no_link_is_left_as_source_when_the_page_is_rendered():
    assert re.findall(r"\[\w+\]:?|\]\[|\]\(", RENDERED.prose) == []


def test_every_link_of_the_page_leads_to_a_file():
    targets = [*FILES.values(), *re.findall(r"\]\((\S+?)\)", TEXT)]
    missing = []
    for target in targets:
        path, _, anchor = target.partition("#")
        page = PAGE.parent / path
        if not page.is_file() or (anchor and f'<a id="{anchor}">' not in page.read_text("utf-8")):
            missing.append(target)
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
