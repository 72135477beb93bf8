"""Figures of reports that are not drawn, for tests that run commands."""

from __future__ import annotations

import hashlib
import html
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from markupsafe import Markup

from representer.report import figures, pictures

_laid_out: dict[bytes, Markup] = {}  # by figure and data


@contextmanager
def undrawn() -> Iterator[None]:
    """Show the titles of figures alone: figures are most of the time of a report.

    A figure of the same data is laid out once, to see that it can be, and for a laptop alone. One
    run of each task is drawn, which tests of a session share, and tests/report draws all kinds.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (figures, pictures):
            patch.setattr(module, "svg", _titled)
        for module in (figures, pictures):
            for name, drawn in list(vars(module).items()):
                draw = getattr(drawn, "__wrapped__", None)
                if draw and not name.startswith("_"):
                    patch.setattr(module, name, _remembered(draw))
        yield


@pytest.fixture(autouse=True)
def figures_are_not_drawn() -> Iterator[None]:
    """Have a ``conftest.py`` import this name, and the tests of its folder draw no figures."""
    with undrawn():
        yield


def _remembered(draw: Callable[..., figures.Drawing]) -> Callable[..., Markup]:
    def titled(*given: Any, **named: Any) -> Markup:
        key = hashlib.sha256(pickle.dumps((draw.__qualname__, given, named))).digest()
        if key not in _laid_out:
            drawing = _titled(*draw(figures.LAPTOP, *given, **named))
            _laid_out[key] = Markup('<div class="wide">{}</div>').format(drawing)
        return _laid_out[key]

    return titled


def _titled(figure: object, title: str) -> Markup:
    return Markup(f'<svg role="img" aria-label="{html.escape(title)}"></svg>\n')


def without_drawings(page: str) -> str:
    """Return a report without what is inside its figures, and without those for a phone."""
    page = re.sub("<svg.*?</svg>", "<svg></svg>", page, flags=re.DOTALL)
    return re.sub(r'<div class="narrow"><svg></svg>\s*</div>', "", page)
