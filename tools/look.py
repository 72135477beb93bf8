"""Open every page of the site in a browser without a window, as a reader would.

``python tools/look.py [--shots docs/assets/screens]`` opens the pages of ``site/`` from their
folder, on a laptop and a phone, light and dark. It fails where a page asks another host, reports
an error, is wider than the screen, or has a picture that does not load, where axe-core finds
fault with it, where letters are smaller than 11 pixels on a phone, and where the search finds
nothing. ``--shots`` writes pictures of three pages. It needs Debian's chromium, or another
by ``--browser``.

axe-core applies all its rules to every element of a page, and reports violations alone: it would
otherwise write a selector for each element that passes a rule, for which it searches the page, and
thousands of elements take minutes.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
SCREENS = {"laptop": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
SHOTS = {"start": "index.html", "when": "when.html", "tutorial": "tutorials/molecules.html"}
QUERY = "phase lags"
WIDER = """() => {
  const screen = document.documentElement.clientWidth;
  const scrolls = (e) => e && e !== document.body && (
    /auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll('main *')].filter((e) =>
    e.getBoundingClientRect().right > screen + 1 && !scrolls(e.parentElement)
  ).slice(0, 3).map((e) =>
    `${e.tagName} ${e.className} ${Math.round(e.getBoundingClientRect().right)} px`);
}"""
AXE = {"preload": False, "resultTypes": ["violations"]}
BROKEN = (
    """() => [...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"""
)

SMALL = """() => {
  const seen = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode());) {
    const element = text.parentElement, style = getComputedStyle(element);
    if (!text.textContent.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (!element.getBoundingClientRect().width || style.opacity === '0') continue;
    const matrix = element.ownerSVGElement && element.getScreenCTM();
    const pixels = parseFloat(style.fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
    if (pixels < 10.95) seen.add(`letters of ${pixels.toFixed(1)} px: ${element.tagName} `
      + text.textContent.trim().slice(0, 30));
  }
  return [...seen].slice(0, 3);
}"""


def problems_of(browser: Browser, screen: str, scheme: str, paths: list[Path]) -> Iterator[str]:
    """Yield what is wrong with pages on a screen."""
    width, height = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme,  # type: ignore[arg-type]
        is_mobile=screen == "phone",
    )  # fmt: skip
    context.set_default_timeout(0)  # the machine may be at work
    page = context.new_page()
    seen: list[str] = []
    page.on("request", lambda r: seen.append(f"asks {r.url}") if foreign(r.url) else None)
    page.on("console", lambda m: seen.append(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda e: seen.append(f"error: {e}"))
    for path in paths:
        print(".", end="", file=sys.stderr, flush=True)
        seen.clear()
        page.goto(path.as_uri())
        found = [*seen, *page.evaluate(WIDER), *page.evaluate(BROKEN)]
        found += page.evaluate(SMALL) if screen == "phone" else []
        found += [
            f"axe-core: {fault['id']}, {len(fault['nodes'])} times, {fault['nodes'][0]['html']:.80}"
            for fault in Axe().run(page, options=AXE).response["violations"]
        ]
        yield from (f"{path.relative_to(SITE)}, {screen}, {scheme}: {one}" for one in found)
    context.close()


def foreign(address: str) -> bool:
    """Return True if an address is neither a file nor part of the page."""
    return not address.startswith(("file:", "data:", "blob:", "about:"))


def found_by_search(page: Page) -> list[str]:
    """Return the titles that the search finds, on a page that was opened from its folder."""
    page.goto((SITE / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type(QUERY, delay=30)
    results = page.locator(".md-search-result__item h1, .md-search-result__item h2")
    results.first.wait_for(timeout=15_000)
    return results.all_inner_texts()


def write_shots(browser: Browser, folder: Path) -> None:
    """Write pictures of the first screens of three pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for screen, (width, height) in SCREENS.items():
        for scheme in SCHEMES:
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme,  # type: ignore[arg-type]
                is_mobile=screen == "phone",
            )  # fmt: skip
            for name, path in SHOTS.items():
                page.goto((SITE / path).as_uri())
                page.wait_for_timeout(300)
                picture = Image.open(io.BytesIO(page.screenshot()))
                picture.thumbnail((900, 844))
                picture.save(folder / f"docs-{name}-{screen}-{scheme}.webp", quality=80, method=6)
            page.close()


def main() -> int:
    """Look at all pages; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Look at every page of the site in a browser.")
    parser.add_argument("--browser", default="/usr/bin/chromium", help="path of the browser")
    parser.add_argument("--shots", type=Path, help="folder for pictures of three pages")
    parser.add_argument("--pages", default="**/*.html", help="pattern of the pages to open")
    chosen = parser.parse_args()
    # a server sends 404.html for any address, so its links begin at the root; others lead on
    paths = sorted(
        path for path in SITE.glob(chosen.pages)
        if path.name != "404.html" and 'http-equiv="refresh"' not in path.read_text("utf-8")
    )  # fmt: skip
    if not paths:
        parser.error(f"no page matches {chosen.pages} in {SITE}; run make docs first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chosen.browser, args=["--no-sandbox"])
        problems = 0
        for screen, scheme in product(SCREENS, SCHEMES):
            for problem in problems_of(browser, screen, scheme, paths):
                print(problem, flush=True)
                problems += 1
        hits = found_by_search(browser.new_page())
        if chosen.shots:
            write_shots(browser, chosen.shots)
    looked = f"{len(paths)} pages on {len(SCREENS)} screens, {' and '.join(SCHEMES)}"
    found = f"the search for “{QUERY}” found {len(hits)} places"
    print(f"{looked}: {problems} problems; {found}")
    return bool(problems) or not hits


if __name__ == "__main__":
    sys.exit(main())
