"""Formulas become MathML when the pages are built: no script, no request to another host."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula that Markdown has marked as one."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    tag, opening, escaped = found.groups()
    formula = html.unescape(escaped).strip()
    if r"\\" in formula and r"\begin{" not in formula:  # several lines, as Sphinx allows
        formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    mathml = convert(formula, display="block" if opening == "[" else "inline")
    if unknown := re.search(r"\\[A-Za-z]+", mathml):  # the converter prints it as text
        raise ValueError(f"{unknown[0]} has no MathML: {formula}")
    return f'<{tag} class="formula">{mathml}</{tag}>'
