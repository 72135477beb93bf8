"""Chromium, driven by Playwright, and what it finds on a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

SCREENS = {"laptop": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
FOUND: list[str] = []  # a line for each page that was looked at, for the end of the tests

# In pixels of the screen: the smallest letters of the visible charts.
_LETTERS = """Math.min(...[...document.querySelectorAll('.wide text, .narrow text')]
    .filter(one => one.getClientRects().length && one.textContent.trim())
    .map(one => parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a,
        one.getScreenCTM().b)))"""
_EMPTY = """[...document.querySelectorAll('img, svg[role=img], svg image')].filter(one => {
    const box = one.getBoundingClientRect();
    const isShown = one.getClientRects().length > 0;
    return isShown && (box.width < 20 || box.height < 20 || one.naturalWidth === 0);
}).length"""
_OUTSIDE = """[...document.querySelectorAll('main *')].filter(one => {
    if (one.closest('.scroll, pre, .skip, svg')) return false;
    return one.getBoundingClientRect().right > innerWidth + 1;
}).map(one => one.outerHTML.slice(0, 80))"""
_HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])"


def missing() -> str:
    """Return what the tests with a browser lack; empty if nothing."""
    if not shutil.which("chromium"):
        return "no chromium: apt-get install chromium"
    for name in ("playwright", "axe_playwright_python"):
        if find_spec(name) is None:
            return f"no {name}: make browser installs it"
    return ""


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Open Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_page(browser: Any, path: Path, screen: str, scheme: str) -> Iterator[Any]:
    """Open a page; its attribute ``messages`` has the errors and warnings of the console."""
    width, height = SCREENS[screen]
    size = {"width": width, "height": height}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        page = context.new_page()
        page.messages = []
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.goto(path.resolve().as_uri())
        yield page


class Look(NamedTuple):
    """A look at a page in a browser.

    Attributes:
        messages: Of the console.
        width: Of the page in pixels.
        outside: Elements beyond the right edge.
        empty: Number of visible pictures without content.
        letters: Size of the smallest letters of the charts in pixels.
        headings: Levels of the headings, in order.
        violations: By axe-core: rule, impact and first place of each.
    """

    messages: list[str]
    width: int
    outside: list[str]
    empty: int
    letters: float
    headings: list[int]
    violations: list[tuple[str, str, str]]


def look(page: Any) -> Look:
    """Return what a page looks like, and what axe-core finds."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return Look(
        messages=page.messages, width=page.evaluate("document.documentElement.scrollWidth"),
        outside=page.evaluate(_OUTSIDE), empty=page.evaluate(_EMPTY),
        letters=page.evaluate(_LETTERS), headings=page.evaluate(_HEADINGS),
        violations=[(one["id"], one["impact"], one["nodes"][0]["html"][:90]) for one in found],
    )  # fmt: skip
