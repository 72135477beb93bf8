"""Format explanations of texts for the terminal, with the words of the listed lines marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from representer.printable import printable
from representer.tasks import estimator_explain

STRONG, PLAIN = "\x1b[1;4m", "\x1b[0m"


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines.

    Args:
        entry: Entry returned by ``explain``.
        styled: Print marked words bold and underlined; otherwise in brackets.
    """
    title, *lines = estimator_explain.as_text(entry, styled=styled).splitlines()
    marked = f"  {sentence(entry['words'], entry['marked'], styled=styled)}"
    depth = entry.get("layers", 1)
    above = f"  of layer 1 of {depth}, contributions propagated through the layers above:"
    inside = _units(entry.get("units", [])) + _steps(entry.get("steps", []))
    return "\n".join([title, marked, *lines, *([above] if depth > 1 else []), *inside])


def sentence(words: Sequence[str], marked: Sequence[bool], *, styled: bool) -> str:
    """Return the words, with the marked ones highlighted and control characters replaced."""
    before, after = (STRONG, PLAIN) if styled else ("[", "]")
    shown = [
        f"{before}{printable(word)}{after}" if is_marked else printable(word)
        for word, is_marked in zip(words, marked, strict=True)
    ]
    return " ".join(shown)


def _units(units: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["  units of the network with the largest contributions:"] if units else []
    for one in units:
        half_life = "never" if one["half_life"] is None else f"{one['half_life']:.2f} words"
        head = f"    unit {one['unit']} {one['contribution']:+.4f}, half-life {half_life}, from"
        lines.append(head)
        lines += [
            f"      {n['contribution']:+10.4f}  {printable(n['text'])}" for n in one["ngrams"]
        ]
    return lines


def _steps(steps: Sequence[dict[str, Any]]) -> list[str]:
    if not steps:
        return []
    width = max(4, *(len(printable(step["word"])) for step in steps))
    lines = [
        "  steps of the network with the largest contributions:",
        f"    {'word':<{width}}  position  contribution  unit  of the unit  "
        "input gate     kept  output gate",
    ]
    for step in steps:
        lines.append(
            f"    {printable(step['word']):<{width}}  {step['step'] + 1:>8}  "
            f"{step['contribution']:+12.4f}  {step['unit']:>4}  "
            f"{step['unit_contribution']:+11.4f}  {step['written']:>10.3f}  "
            f"{step['kept']:>7.2g}  {step['read']:>11.3f}"
        )
    return lines
