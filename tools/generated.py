"""Write the files that follow from declarations: ``make generated``.

A cell, a kernel or a task is declared once. From this follow the overview of the commands, the list
of their options, the names of the estimators for editors and for the reference, and the tables that
pages of the documentation show. Tests compare each of them with what is declared.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import textwrap
from collections import defaultdict
from pathlib import Path

from representer.cli import OVERVIEW, main
from representer.cli.parser import build
from representer.estimators import ESTIMATORS, OF_ALL
from representer.options.registry import classes

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "src/representer/estimators/__init__.py"
REFERENCE = ROOT / "docs/reference/estimators.md"
OPTIONS = ROOT / "tests/cli/options.txt"
TABLES = re.compile(r"^```console\n\$ representer (cells.*)\n(?s:.*?)^```$", re.MULTILINE)


def surface() -> str:
    """Return every command, its arguments and its options with their defaults."""
    lines = []
    for name in main.COMMANDS:
        lines.append(name)
        for action in build(name, main.load(name))._actions:
            shown = ", ".join(action.option_strings) or action.dest
            is_from_environment = action.option_strings == ["--data"]
            default = "(environment)" if is_from_environment else repr(action.default)
            lines.append(f"  {shown} = {default}")
    return "\n".join(lines) + "\n"


def names(text: str) -> str:
    """Return the module of the estimators with the imports for editors and ``__all__``."""
    modules = defaultdict(list)
    for name, module in OF_ALL.items():
        modules[f"representer.estimators.{module}"].append(name)
    for place in map(classes().__getitem__, ESTIMATORS):
        module, _, name = place.partition(":")
        modules[module].append(name)
    imports = "".join(
        f"    from {module} import {', '.join(each)}\n" for module, each in sorted(modules.items())
    )
    public = sorted((*OF_ALL, *ESTIMATORS), key=lambda name: (name.islower(), name))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in ("ESTIMATORS", *public)), 95)
    listed = textwrap.indent(f"{listed},", "    ")
    text = re.sub(r"(?<=`__all__`\n)(?:    from .*\n)+", imports, text)
    return re.sub(r"__all__ = \[(?s:.*?)\]", lambda _: f"__all__ = [\n{listed}\n]", text)


def reference(text: str) -> str:
    """Return the reference of the estimators with those that it lacks."""
    entries = (place.replace(":", ".") for place in classes().values())
    missing = [f"::: {entry}\n\n" for entry in entries if f"::: {entry}\n" not in text]
    return text.replace("## ESTIMATORS", f"{''.join(missing)}## ESTIMATORS", 1)


def with_tables(page: str) -> str:
    """Return a page with the tables that its commands print."""

    def run(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            main.entry_point(shlex.split(block[1]))
        return f"```console\n$ representer {block[1]}\n{printed.getvalue()}```"

    return TABLES.sub(run, page)


def write() -> None:
    """Write every file that differs, and print its name."""
    texts = {OVERVIEW: main._overview(main.COMMANDS) + "\n", OPTIONS: surface()}
    texts |= {NAMES: names(NAMES.read_text("utf-8"))}
    texts |= {REFERENCE: reference(REFERENCE.read_text("utf-8"))}
    for page in ROOT.glob("docs/**/*.md"):
        texts[page] = with_tables(texts.get(page) or page.read_text("utf-8"))
    for path, text in texts.items():
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(path)


if __name__ == "__main__":
    write()
