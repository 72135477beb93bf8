"""The site: no page is lost, and each ends with where to go next."""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
STEPS = yaml.safe_load((DOCS / "next.yml").read_text("utf-8"))
OF_ROOT = {"project/contributing.md", "project/changelog.md", "project/security.md"}
LINES = 220  # of the README
WHEN = re.compile(r"Of \d+ comparisons: .*")


@pytest.fixture
def hook(monkeypatch):
    """Return what imports a hook of the site."""
    monkeypatch.syspath_prepend(DOCS / "hooks")
    yield importlib.import_module
    for path in (DOCS / "hooks").glob("*.py"):
        sys.modules.pop(path.stem, None)


def leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from (leaf for value in entry.values() for leaf in leaves(value))
    else:
        yield from (leaf for value in entry for leaf in leaves(value))


def pages() -> set[str]:
    files = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    return files | OF_ROOT


def test_every_page_is_in_the_navigation_once(hook):
    grouped = hook("results").grouped(DOCS / "results")
    found = [*leaves(NAV), *leaves(list(grouped.values()))]
    assert sorted(found) == sorted(pages())


def test_pages_of_results_are_grouped_as_their_index_does(hook):
    grouped = hook("results").grouped(DOCS / "results")
    assert "results/cpu-speed.md" in grouped["Speed"]
    assert "results/papers.md" in grouped["Reproductions of the papers"]


def test_every_page_has_a_next_step(hook):
    steps_of = hook("next_steps").steps_of
    assert [page for page in sorted(pages()) if not steps_of(page, STEPS)] == []
    assert [page for page in pages() if page in steps_of(page, STEPS)] == []
    assert [page for page in pages() if len(steps_of(page, STEPS)) > 3] == []


def test_next_steps_name_pages_that_there_are(hook):
    assert hook("next_steps").unknown(STEPS, pages()) == []


def test_from_the_front_page_every_section_is_three_steps_away(hook):
    steps_of = hook("next_steps").steps_of
    reached, last = {"index.md"}, {"index.md"}
    for _ in range(3):
        last = {step for page in last for step in steps_of(page, STEPS)} - reached
        reached |= last
    assert {page.partition("/")[0] for page in reached} >= {"tutorials", "howto", "results"}


def test_the_first_screen_of_the_readme_says_when_to_use_it():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert any("docs/when.md" in line for line in lines[:32])
    assert len(lines) <= LINES


def test_the_readme_counts_the_comparisons_of_the_page_when():
    counts = re.findall(r"\d+", WHEN.search((ROOT / "docs/when.md").read_text("utf-8"))[0])
    shown = " ".join((ROOT / "README.md").read_text("utf-8").split())
    sentence = "{} measured comparisons, {} ahead, {} level, {} behind"
    assert sentence.format(*counts) in shown


def test_an_old_address_leads_to_a_page_and_a_heading_that_there_are(hook):
    assert hook("redirects").redirects(DOCS)
    moved = yaml.safe_load((DOCS / "redirects.yml").read_text("utf-8"))
    assert [old for old in moved if old in pages()] == []
    for new in moved.values():
        page, _, anchor = new.partition("#")
        assert page in pages()
        text = (DOCS / page).read_text("utf-8") if anchor else ""
        heads = {
            re.sub(r"[^\w -]", "", head).lower() for head in re.findall(r"^#+ (.+)$", text, re.M)
        }
        named = {re.sub(r"[ -]+", "-", head.strip()) for head in heads}
        assert not anchor or anchor in named or f'<a id="{anchor}">' in text, new


def test_a_moved_page_leads_there_from_its_own_folder(hook):
    found = hook("redirects").redirects(DOCS)
    assert found["howto/series.html"] == "sequences.html#classify-series"
    assert found["cells.html"] == "concepts/cells.html#all-cells"


def test_indices_in_a_sentence_are_set_and_code_is_not(hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", types.SimpleNamespace(convert=str))
    set_indices = hook("mathml").with_indices
    assert set_indices("<p>h_t, σ_f^{2N}</p>") == (
        "<p><i>h</i><sub>t</sub>, <i>σ</i><sub>f</sub><sup>2N</sup></p>"
    )
    assert set_indices("e^{c_{t−1}}") == "e<sup><i>c</i><sub>t−1</sub></sup>"
    for same in (
        "<code>x_t</code>",
        "n_jobs",
        "of_products",
        '<a href="x_t">',
        "<pre>a <b>x_t</b></pre>",
    ):
        assert set_indices(same) == same


def test_a_docstring_links_the_statements_of_its_class(hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    docstrings = hook("docstrings")
    assert "](../equations.md#liang-et-al-2019)" in docstrings.equations_of("RKMLSTM")
    assert "(10), (11)" in docstrings.equations_of("RKMLSTM")
    assert docstrings.equations_of("nothing") == ""


def test_a_formula_on_the_line_of_its_directive_is_one(hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    to_markdown = hook("docstrings").to_markdown
    assert to_markdown("A.\n\n.. math:: v = 1\n\nEnd.\n") == "A.\n\n$$\nv = 1\n$$\n\nEnd.\n"
    assert to_markdown(".. math::\n    v = 1\n\nEnd.") == "$$\nv = 1\n$$\n\nEnd."


def test_an_example_of_a_reference_page_moves_to_its_docstring(hook, monkeypatch):
    monkeypatch.setitem(sys.modules, "griffe", types.SimpleNamespace(Extension=object))
    docstrings = hook("docstrings")
    page = "::: a.b.Thing\n    options:\n      x: 1\n\n```python\n>>> 1\n1\n```\n\nEnd.\n"
    assert docstrings.on_page_markdown(page) == "::: a.b.Thing\n    options:\n      x: 1\n\nEnd.\n"
    assert docstrings.examples()["RKMCIFG"].startswith(">>> layer = nn.RKMCIFG(")
    assert docstrings.equations_of("gated_scan_definition") == docstrings.equations_of("gated_scan")
