"""Pages of results that hold what several commands wrote, a section each.

    python benchmarks/result_pages.py

A section begins with ``<a id="NAME"></a>`` and is the page ``NAME.md`` with its headings a level
lower. A command that writes ``docs/results/NAME.md`` replaces the section of that name, if a page
has one. The command above does the same to pages that lie beside it, such as those of a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "docs" / "results"
FENCE = re.compile(r"^```")


def text_of(folder: Path, name: str) -> str:
    """Return what a command wrote: a page, or a section as a page of its own.

    Raises:
        FileNotFoundError: There is neither.
    """
    page = folder / f"{name}.md"
    for joined in () if page.exists() else folder.glob("*.md"):
        _, found, rest = joined.read_text("utf-8").partition(_mark(name))
        if found:
            return _moved(rest.partition('\n<a id="')[0], -1).lstrip("\n")
    return page.read_text("utf-8")


def home_of(page: Path) -> Path:
    """Return the page that has a section of the name of a page; the page itself without one."""
    for joined in sorted(page.parent.glob("*.md")):
        if joined != page and _mark(page.stem) in joined.read_text("utf-8"):
            return joined
    return page


def placed(page: Path, text: str) -> tuple[Path, str]:
    """Return the page that takes what a command wrote, and all of its text."""
    home = home_of(page)
    if home == page:
        return page, text
    before, mark, rest = home.read_text("utf-8").partition(_mark(page.stem))
    _, next_mark, after = rest.partition('\n<a id="')
    return home, f"{before}{mark}\n{_moved(text, 1)}{next_mark}{after}"


def link_of(folder: Path, name: str) -> str:
    """Return the address of what a command wrote, from the folder of the results."""
    page = folder / f"{name}.md"
    return page.name if page.exists() else f"{home_of(page).name}#{name}"


def section(name: str, text: str) -> str:
    """Return a page as a section of another one."""
    return f"{_mark(name)}\n{_moved(text, 1)}"


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the head and the rows of each table of Markdown."""
    for block in text.split("\n\n"):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                 for line in block.splitlines() if line.startswith("|")]  # fmt: skip
        if len(lines) > 1:
            yield lines[0], lines[2:]


def _mark(name: str) -> str:
    return f'<a id="{name}"></a>\n'


def _moved(text: str, levels: int) -> str:
    """Return Markdown with its headings some levels lower, but those in blocks of code."""
    lines, is_code = [], False
    for line in text.splitlines():
        is_code ^= FENCE.match(line) is not None
        if not is_code and re.match(r"#+ ", line):
            line = "#" * levels + line if levels > 0 else line[-levels:]
        lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> None:
    for page in sorted(RESULTS.glob("*.md")):
        home, text = placed(page, page.read_text("utf-8"))
        if home != page:
            home.write_text(text, encoding="utf-8")
            page.unlink()
            print(f"{page.name} → {home.name}")


if __name__ == "__main__":
    main()
