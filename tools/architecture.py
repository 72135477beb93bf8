"""Draw the layers of the library and the way of one row through them, from the code.

``python tools/architecture.py`` writes docs/concepts/architecture.md and its picture. The layers
are those that lint-imports checks (pyproject.toml), the imports those of the packages, and the
way of a row is the one that tools/tree.py measured (docs/results/tree.md). A test compares page
and picture with what this command would write.
"""

from __future__ import annotations

import ast
import html
import re
import tomllib
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "representer"
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
PICTURE = ROOT / "docs" / "assets" / "architecture.svg"
WAY = "A row in `fit text`"
CALL = "A call of `nn.RKMLSTM`, to the C++ core and back"
DUALITY = "A kernel that becomes its network, and back"
WIDTH, STEP, LANE, TOP = 720, 30, 42, 40  # widths and heights in the picture
INK, MODEL, ROW = "#808080", "#3b82c4", "#d9822b"

Layers = list[list[str]]  # packages side by side, the top layer first
Stations = list[tuple[str, list[str]]]  # a package, and the files of it that the row passes

DECISIONS = {
    "which rows train, validate and test": ("tasks/objects.py", "divided"),
    "the weights of kernel and network": ("estimators/halves.py", "Pool.fit"),
    "whether a run folder is what was written": ("storage/run.py", "RunFiles._verify"),
    "which backend computes an operator": ("ops/op.py", "Op.choose"),
    "which column holds the texts": ("data/tables/columns.py", "guess_text"),
}


def layers() -> Layers:
    """Return the layers of the first contract of lint-imports, without the package's name."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    rows = config["contracts"][0]["layers"]
    return [
        [re.sub(r"^representer\.", "", name.strip()) for name in row.split("|")] for row in rows
    ]


def imports() -> dict[str, set[str]]:
    """Return which packages each package imports; imports for type hints alone do not count."""
    graph = grimp.build_graph(
        "representer", "representer_papers", exclude_type_checking_imports=True, cache_dir=None
    )
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            found[package_of(module)].add(package_of(imported))
    return {name: own - {name, ""} for name, own in found.items() if name}


def package_of(module: str) -> str:
    """Return the package below representer, "" for representer itself."""
    first, *rest = module.split(".")
    return first if first != "representer" else rest[0] if rest else ""


def way(title: str = WAY) -> Stations:
    """Return the stations of a row or of a call, from the page of tools/tree.py."""
    page = (ROOT / "docs" / "results" / "tree.md").read_text("utf-8")
    section = page.partition(f"## {title}")[2].partition("\n## ")[0]
    files = re.findall(r"^- `(.+)`$", section, re.MULTILINE)
    return [(name, list(own)) for name, own in groupby(files, lambda file: file.split("/")[0])]


def summary(file: Path) -> str:
    """Return the first line of a module's docstring, without its period."""
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].rstrip(".").replace("``", "`")


def drawn(rows: Layers, stations: Stations) -> str:
    """Return the picture as SVG: the layers, and in each package its stations of the row."""
    height = TOP + LANE * len(rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="15" fill="{INK}">',
        '<text x="8" y="24">Each layer imports those below it. The numbers are the way of one row '
        'in <tspan font-family="monospace">fit text</tspan>.</text>',
    ]
    for k, row in enumerate(rows):
        y, box = TOP + LANE * k, (WIDTH - 10) / len(row)
        for j, name in enumerate(row):
            x = 8 + j * box
            parts += [
                f'<rect x="{x:.0f}" y="{y + 4}" width="{box - 6:.0f}" height="{LANE - 8}" rx="6" '
                f'fill="{MODEL}" fill-opacity="0.15" stroke="{MODEL}"/>',
                f'<text x="{x + 12:.0f}" y="{y + LANE // 2 + 5}">{name}</text>',
            ]
            numbered = [
                (number, files) for number, (own, files) in enumerate(stations, 1) if own == name
            ]
            for place, (number, files) in enumerate(reversed(numbered)):
                at = x + box - 26 - STEP * place
                parts.append(
                    f"<g><title>{html.escape(', '.join(files))}</title>"
                    f'<circle cx="{at:.0f}" cy="{y + LANE // 2}" r="13" fill="{ROW}"/>'
                    f'<text x="{at:.0f}" y="{y + LANE // 2 + 5}" text-anchor="middle" '
                    f'fill="#ffffff">{number}</text></g>'
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


def page(rows: Layers, imported: dict[str, set[str]], stations: Stations) -> str:
    """Return the page."""
    order = [name for row in rows for name in row]
    head = """\
# The parts of the library

An equation is written once, in `functional`; operators compute it fast, layers and kernels are
made of operators, and everything that a user of files needs stands above. Imports point down only,
which `lint-imports` checks. The numbers lead one row of a table from the file to the answer.

![Layers of the library, and the way of one row through them](../assets/architecture.svg)

Written by `python tools/architecture.py` from the contract in `pyproject.toml`, the imports of the
packages and the [measured way of a row](../results/tree.md); a test compares them.

## One row, from file to answer

The row is followed as text. As numbers it goes on through `models`, `nn`, `ops` and the
[C++ core](../results/tree.md).

| | where | files |
| --- | --- | --- |"""
    table = as_table(stations)
    walks = [
        "", "## A call of a layer", "",
        "`nn.RKMLSTM(4, 8)(x)` passes these files of Python on its way to the C++ core and back: "
        "the layer lays out its weights, the operator checks them and picks a backend.", "",
        "| | where | files |", "| --- | --- | --- |", *as_table(way(CALL)),
        "", "## A kernel that becomes its network", "",
        "`StringKernel(2).network(4, 8)` and the `.kernel` of the result; `duality` sees both.",
        "", "| | where | files |", "| --- | --- | --- |", *as_table(way(DUALITY)),
        "", "## Where it is decided", "",
        "| what | function |", "| --- | --- |",
        *(f"| {what} | `{function}` in `{file}` |" for what, (file, function) in decisions()),
        "", "## Where to add something", "",
        "`CONTRIBUTING.md` has a table of the files to write for a cell, a kernel, a reader or a "
        "task, and of what follows from each by itself, such as tests and help.", "",
    ]  # fmt: skip
    packages = ["## The packages, and what each imports", "", "| package | what it is | imports |",
                "| --- | --- | --- |"]  # fmt: skip
    for name in order:
        home = ROOT / "src" / name if name == "representer_papers" else SRC / name
        file = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        own = ", ".join(f"`{each}`" for each in order if each in imported.get(name, ())) or "–"
        packages.append(f"| `{name}` | {summary(file)} | {own} |")
    return "\n".join([head, *table, *walks, *packages]) + "\n"


def decisions() -> list[tuple[str, tuple[str, str]]]:
    """Return what is decided, and the file and the function that decide it.

    Raises:
        ValueError: If a file does not define its function.
    """
    for file, function in DECISIONS.values():
        if f"def {function.rpartition('.')[2]}(" not in (SRC / file).read_text("utf-8"):
            raise ValueError(f"{file} does not define {function}")
    return list(DECISIONS.items())


def as_table(stations: Stations) -> list[str]:
    """Return the stations as rows of a table, with what each file is."""
    return [
        f"| {number} | `{name}` | "
        + "<br>".join(f"`{file}`: {summary(SRC / file)}" for file in files) + " |"
        for number, (name, files) in enumerate(stations, 1)
    ]  # fmt: skip


def main() -> None:
    """Write page and picture."""
    rows, stations = layers(), way()
    PICTURE.write_text(drawn(rows, stations), encoding="utf-8")
    PAGE.write_text(page(rows, imports(), stations), encoding="utf-8")


if __name__ == "__main__":
    main()
