"""Docstrings of the library, which are written for ``help()`` and Sphinx, as Markdown."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import Any

import griffe

_MATH_BLOCK = re.compile(r"^( *)\.\. math::( \S.*)?\n((?:\1 +.*\n?|\n)*)", re.MULTILINE)
_MATH_ROLE = re.compile(r":math:`([^`]+)`")
_CLASS_ROLE = re.compile(r":class:`~?([\w.]+\.)?(\w+)`")

EQUATIONS = Path(__file__).parents[1] / "equations.md"
REFERENCE = Path(__file__).parents[1] / "reference"
_EXAMPLE = re.compile(
    r"^(::: \S+\.(\w+)\n(?:    [^\n]*\n)*)\n```python\n(>>> .*?)^```\n", re.M | re.S
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Remove the examples of objects, which stand at the end of their docstrings."""
    return _EXAMPLE.sub(r"\1", markdown)


@lru_cache
def examples(folder: Path = REFERENCE) -> dict[str, str]:
    """Return the examples of the reference pages, by the name of the class or function."""
    pages = (page.read_text("utf-8") for page in sorted(folder.glob("*.md")))
    return {found[2]: found[3] for page in pages for found in _EXAMPLE.finditer(page)}


def to_markdown(docstring: str, package: str = "") -> str:
    """Return a docstring with formulas and references as Markdown has them.

    A class that is named without its package is one of ``package``, which ends in a dot.
    """
    docstring = _MATH_BLOCK.sub(_block, docstring)
    docstring = _MATH_ROLE.sub(r"$\1$", docstring)
    return _CLASS_ROLE.sub(lambda m: f"[`{m[2]}`][{m[1] or package}{m[2]}]", docstring)


def equations_of(name: str, page: Path = EQUATIONS) -> str:
    """Return links to the statements that a class or function answers, as the page lists them."""
    by_name = _statements(page)
    rows = by_name.get(name) or by_name.get(name.removesuffix("_definition"), ())
    found = [
        f"[{paper} {', '.join(statements)}](../equations.md#{anchor})"
        for paper, anchor, statements in rows
    ]
    return f"Statements of the papers, with their tests: {'; '.join(found)}." if found else ""


@lru_cache
def _statements(page: Path) -> dict[str, list[tuple[str, str, list[str]]]]:
    """Return the paper, its heading's anchor, and the statements, by the name of the object."""
    by_name: dict[str, dict[tuple[str, str], list[str]]] = {}
    for section in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        anchor = re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).lower())
        for row in re.findall(r"^\| (.+?) \| .+? \| (.+?) \| ", section, re.MULTILINE):
            for name in set(re.findall(r"`(?:\w+\.)*(\w+)[(`]", row[1])):
                by_name.setdefault(name, {}).setdefault((title, anchor), []).append(row[0])
    return {
        name: [(*paper, [*dict.fromkeys(rows)]) for paper, rows in papers.items()]
        for name, papers in by_name.items()
    }


class MarkdownDocstrings(griffe.Extension):
    """Converts the docstring of every object that is read; an overriding method inherits one."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert one docstring in place."""
        if obj.docstring is not None:
            package = "".join(f"{name}." for name in obj.path.split(".")[:2])
            text = to_markdown(obj.docstring.value, package)
            is_public = obj.is_class or (obj.is_function and not obj.parent.is_class)
            if is_public and not obj.name.startswith("_"):
                links, example = equations_of(obj.name), examples().get(obj.name, "")
                text += f"\n\n{links}" if links else ""
                text += f"\n\nExamples:\n{textwrap.indent(example, '    ')}" if example else ""
            obj.docstring.value = text

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Give each method without a docstring that of the one that it overrides."""
        modules: list[griffe.Object] = [pkg]
        for each in modules:
            members = [member for member in each.members.values() if not member.is_alias]
            modules += [m for m in members if m.is_module or m.is_class]  # type: ignore[misc]
            if isinstance(each, griffe.Class):
                for member in members:
                    inherited = (base.members.get(member.name) for base in each.mro())
                    docstrings = (m.docstring for m in inherited if m is not None and m.docstring)
                    member.docstring = member.docstring or next(docstrings, None)


def _block(found: re.Match[str]) -> str:
    indent, first, body = found.groups()
    formula = "\n".join([(first or "").strip(), textwrap.dedent(body)]).strip("\n")
    return textwrap.indent(f"$$\n{formula}\n$$\n\n", indent)
