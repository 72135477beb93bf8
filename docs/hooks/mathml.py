"""Formulas become MathML when the pages are built: no script, no request to another host.

Indices of symbols in a sentence, such as ``h_t`` and ``σ_f^{2N}``, are set as indices.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_AS_IT_IS = re.compile(r"(<(code|pre|math|script|style|svg)\b.*?</\2>|<[^>]*>)", re.DOTALL)
_INDEX = re.compile(
    r"(?<![a-zA-Z0-9_/.-])([^\W\d_][\u0300-\u036f]*['’′]?)_(\{[^{}<>]+\}|[^\W_²³]{1,2}(?![^\W²³]|_))"
)
_CORNER = re.compile(r"<th( [^>]*)?></th>")
_POWER = re.compile(r"\^(\{[^{}]+\}|-?\w)")


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula that Markdown has marked as one, and set the indices of others.

    The empty corner of a table is a cell and no heading, for those who have the page read out.
    """
    return with_indices(_FORMULA.sub(_mathml, _CORNER.sub(r"<td\1></td>", content)))


def with_indices(content: str) -> str:
    """Return HTML with the indices and powers of its text set as such; code is left alone."""
    parts = _AS_IT_IS.split(content)
    return "".join(
        _POWER.sub(_power, _INDEX.sub(_index, part)) if k % 3 == 0 else part if k % 3 == 1 else ""
        for k, part in enumerate(parts)
    )


def _index(found: re.Match[str]) -> str:
    return f"<i>{found[1]}</i><sub>{found[2].strip('{}')}</sub>"


def _power(found: re.Match[str]) -> str:
    return f"<sup>{found[1].strip('{}')}</sup>"


def _mathml(found: re.Match[str]) -> str:
    tag, opening, escaped = found.groups()
    formula = html.unescape(escaped).strip()
    if r"\\" in formula and r"\begin{" not in formula:  # several lines, as Sphinx allows
        formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    mathml = convert(formula, display="block" if opening == "[" else "inline")
    if unknown := re.search(r"\\[A-Za-z]+", mathml):  # the converter prints it as text
        raise ValueError(f"{unknown[0]} has no MathML: {formula}")
    return f'<{tag} class="formula">{mathml}</{tag}>'
