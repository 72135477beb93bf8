"""A card of the first screen of a report."""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """A figure with its meaning.

    Attributes:
        label: The question that it answers.
        figure: The figure.
        text: What it is, with its interval.
        shares: Names and sizes of the parts of a bar.
        tone: ``"good"``, ``"bad"`` or nothing.
    """

    label: str
    figure: str
    text: str
    shares: tuple[tuple[str, float], ...] = ()
    tone: str = ""
