"""The report of a tiny run of every task in Chromium: on a laptop and a phone, light and dark."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import browser
from browser import FOUND, SCHEMES, SCREENS, look, opened_page
from cli.conftest import write_table
from page_checks import faults
from representer.cli.main import entry_point

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "-"),
]

SMALL = ["--epochs", "1", "--hidden-size", "8"]
TASKS = {
    "text": [*SMALL, "--embedding-size", "8"], "molecule": [*SMALL, "--members", "2"],
    "graph": SMALL, "series": [*SMALL, "--answer", "both"],
    "sequence": [*SMALL, "--answer", "both"], "signal": [*SMALL, "--folds", "2", "--jobs", "1"],
    "language": ["--epochs", "1", "--hidden-size", "16"],
}  # fmt: skip
IMPACTS = ("critical", "serious", "moderate", "minor")
MOST_BYTES = 2_000_000
LEAST_LETTERS = 10.0  # pixels; the text of the page has 16


@pytest.fixture(scope="session", params=TASKS)
def report(request, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp(request.param) / "run"
    data = "--demo"
    if request.param == "text":  # its demo has 14,000 lines
        data = str(write_table(run.parent / "table.csv"))
    words = ["fit", request.param, data, "--out", str(run), *TASKS[request.param]]
    assert entry_point(words) == 0
    return run / "report.html"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_is_in_order_on_every_screen(chromium, report, screen, scheme):
    with opened_page(chromium, report, screen, scheme) as page:
        seen = look(page)
    task, kilobytes = report.parent.parent.name.rstrip("0123456789"), report.stat().st_size / 1000
    counts = Counter(impact for _, impact, _ in seen.violations)
    listed = ", ".join(f"{impact} {counts[impact]}" for impact in IMPACTS)
    FOUND.append(
        f"{task:<9} {screen:<7} {scheme:<6} {seen.width:>5} px wide, letters of charts "
        f"{seen.letters:4.1f} px, {kilobytes:5.0f} kB; axe: {listed}"
    )
    assert seen.messages == []
    assert seen.width <= SCREENS[screen][0]
    assert seen.outside == []
    assert seen.empty == 0
    assert seen.letters >= LEAST_LETTERS
    assert seen.headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(seen.headings))
    assert [one for one in seen.violations if one[1] in ("critical", "serious")] == []


def test_the_file_is_small_and_its_parts_are_in_order(report):
    assert report.stat().st_size < MOST_BYTES
    assert faults(report.read_text(encoding="utf-8")) == []


def test_the_keyboard_reaches_the_results_and_the_weights_of_words(chromium, report):
    with opened_page(chromium, report, "laptop", "light") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#results"
        marks = page.locator("mark[tabindex]")
        if not marks.count():
            return  # no explained texts
        marks.first.focus()
        tip = page.locator(f"#{marks.first.get_attribute('aria-describedby')}")
        assert tip.is_visible()
        assert marks.first.inner_text() in tip.inner_text()
