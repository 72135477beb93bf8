"""Figures of reports that are not drawn, for tests that run commands."""

from __future__ import annotations

import html
import re

import pytest
from markupsafe import Markup

from representer.report import canvas, signal_figures


@pytest.fixture(autouse=True)
def figures_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the title of a figure alone: drawing is most of the time of a report.

    The figures of runs that tests of a session share are drawn, and tests/report draws all kinds.
    A ``conftest.py`` that imports this name has it used by the tests of its folder.
    """
    for module in (canvas, signal_figures):
        monkeypatch.setattr(module, "svg", _titled)


def _titled(figure: object, title: str) -> Markup:
    return Markup(f'<svg role="img" aria-label="{html.escape(title)}"></svg>\n')


def without_drawings(page: str) -> str:
    """Return a report without what is inside its figures."""
    return re.sub("<svg.*?</svg>", "<svg></svg>", page, flags=re.DOTALL)
