"""Take the first screen of each task's report, and write the page that shows them.

    make browser
    python benchmarks/report_pages.py --runs runs/demos --out docs/results/report-pages.md

Needs Chromium and the packages of the extra browser. Demos that are missing in RUNS are trained
first, a few minutes each; the tests with a browser run last, and their closing lines stand on the
page.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from pathlib import Path

import torch
from jinja2 import Environment
from PIL import Image

from representer import __version__
from representer.cli.main import entry_point

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the browser is that of the tests

from browser import SCHEMES, SCREENS, look, opened_browser, opened_page  # noqa: E402

TASKS = ("text", "molecule", "graph", "signal", "language")
WIDTHS = {"laptop": 1080, "phone": 390}  # pixels of a picture
TESTS = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "browser", "tests/report"]
PAGE = Path(__file__).with_suffix(".md")  # a template


def main() -> None:
    """Train what is missing, take the pictures, run the tests, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for task in TASKS:
        run = arguments.runs / task
        is_there = (run / "report.html").exists()
        words = ["report", str(run)] if is_there else ["fit", task, "--demo", "--out", str(run)]
        if entry_point(words):
            raise SystemExit(f"the demo of {task} failed")
    folder = arguments.out.parent.parent / "assets" / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"representer": __version__, "torch": torch.__version__}
    with opened_browser() as browser:
        versions["chromium"] = browser.version
        for task in TASKS:
            for screen in SCREENS:
                for scheme in SCHEMES:
                    with opened_page(
                        browser, arguments.runs / task / "report.html", screen, scheme
                    ) as page:
                        shot = Image.open(io.BytesIO(page.screenshot()))
                        look(page)
                        versions["axe"] = page.evaluate("axe.version")
                    save(shot, folder / f"{task}-{screen}-{scheme}.webp", WIDTHS[screen])
    template = Environment(trim_blocks=True, keep_trailing_newline=True).from_string(
        PAGE.read_text(encoding="utf-8")
    )
    shown = {"tasks": TASKS, "screens": SCREENS, "schemes": SCHEMES, **versions}
    page = template.render(shown, closing=closing_lines())
    arguments.out.write_text(page, encoding="utf-8")


def save(shot: Image.Image, path: Path, width: int) -> None:
    """Write a picture, smaller."""
    height = round(shot.height * width / shot.width)
    shot.convert("RGB").resize((width, height), Image.Resampling.LANCZOS).save(path, quality=80)


def closing_lines() -> str:
    """Run the tests with a browser and return what they print at the end.

    Raises:
        SystemExit: One fails.
    """
    result = subprocess.run(TESTS, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(result.stdout[-5000:])
    lines = result.stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if "pages in Chromium" in line)
    return "\n".join(lines[start:]).replace("=", "").strip()


if __name__ == "__main__":
    main()
