"""The gallery: pictures from real runs, each with its command and what it shows.

    python benchmarks/gallery.py [--only NAME,NAME]

draws the pictures of gallery_pictures.py into docs/assets/gallery and writes docs/gallery.md from
gallery.toml. Pictures of the papers are those of the pages of results.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # other programs may use the cores

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import gallery_pictures
from report import publish

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "assets" / "gallery"
LIST = Path(__file__).with_suffix(".toml")
STYLE = DOCS / "assets" / "docs.mplstyle"
COMMAND = "python benchmarks/gallery.py"
LARGEST, ALL = 60_000, 1_000_000  # bytes of a new picture, and of all new ones
ABOUT = f"""\
# Gallery

Every picture is drawn from a real run by the command below it. `{COMMAND}` draws
{{count}} of them in a few minutes, from data that the package makes; the others belong to the
[results](results/index.md)."""


@dataclass(frozen=True)
class Entry:
    """A picture of the gallery."""

    group: str  # heading above it
    name: str  # of the function that draws it, or its file below docs
    title: str
    shows: str  # one sentence
    link: str  # page with more, below docs
    command: str = ""  # what drew it; that of the gallery if left out

    @property
    def file(self) -> str:
        return self.name if self.command else f"assets/gallery/{self.name}.svg"

    def markdown(self) -> str:
        """Return the entry of the page."""
        command = self.command or f"{COMMAND} --only {self.name}"
        return (
            f"<figure markdown>\n\n![{self.title}]({self.file})\n\n**{self.title}.** {self.shows} "
            f"[More]({self.link}).\n\n```sh\n{command}\n```\n\n</figure>"
        )


def entries() -> list[Entry]:
    """Return all entries, those of a group one after the other."""
    return [Entry(**row) for row in tomllib.loads(LIST.read_text("utf-8"))["picture"]]


def function_of(name: str) -> Callable[[], Figure]:
    """Return the function that draws a picture."""
    return getattr(gallery_pictures, name)


def draw(name: str, folder: Path) -> Path:
    """Draw one picture and return its file.

    Raises:
        SystemExit: If it is too large.
    """
    path = folder / f"{name}.svg"
    folder.mkdir(parents=True, exist_ok=True)
    with plt.style.context(STYLE):
        figure = function_of(name)()
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes; expected at most {LARGEST}")
    return path


def text() -> str:
    drawn = sum(not entry.command for entry in entries())
    parts = [ABOUT.format(count=drawn)]
    for group, members in groupby(entries(), lambda entry: entry.group):
        pictures = [entry.markdown() for entry in members]
        parts += [f"## {group}", '<div class="gallery" markdown>', *pictures, "</div>"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the gallery.")
    parser.add_argument("--only", help="names of pictures, separated by commas; default: all")
    chosen = parser.parse_args()
    names = [entry.name for entry in entries() if not entry.command]
    plt.switch_backend("agg")
    for name in chosen.only.split(",") if chosen.only else names:
        if name not in names:
            parser.error(f"there is no picture {name!r}; the pictures are {', '.join(names)}")
        print(draw(name, FOLDER))
    publish(text(), DOCS / "gallery.md")


if __name__ == "__main__":
    main()
