"""Docstrings of the library, which are written for ``help()`` and Sphinx, as Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_MATH_BLOCK = re.compile(r"^( *)\.\. math::\n((?:\1 +.*\n?|\n)+)", re.MULTILINE)
_MATH_ROLE = re.compile(r":math:`([^`]+)`")
_CLASS_ROLE = re.compile(r":class:`~?([\w.]+\.)?(\w+)`")


def to_markdown(docstring: str, package: str = "") -> str:
    """Return a docstring with formulas and references as Markdown has them.

    A class that is named without its package is one of ``package``, which ends in a dot.
    """
    docstring = _MATH_BLOCK.sub(_block, docstring)
    docstring = _MATH_ROLE.sub(r"$\1$", docstring)
    return _CLASS_ROLE.sub(lambda m: f"[`{m[2]}`][{m[1] or package}{m[2]}]", docstring)


class MarkdownDocstrings(griffe.Extension):
    """Converts the docstring of every object that is read; an overriding method inherits one."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert one docstring in place."""
        if obj.docstring is not None:
            package = "".join(f"{name}." for name in obj.path.split(".")[:2])
            obj.docstring.value = to_markdown(obj.docstring.value, package)

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
    indent, body = found.groups()
    formula = textwrap.dedent(body).strip("\n")
    return textwrap.indent(f"$$\n{formula}\n$$\n\n", indent)
