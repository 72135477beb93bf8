"""Explained predictions as lines for the terminal: words, atoms or steps first, colored alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from representer.errors import printable
from representer.estimators.explanation import BLUE, RED, TEXT_PLACES, rows_of
from representer.report.metrics import decimals_of

BAR, PLAIN = 20, "\x1b[0m"
OPACITY = 0.62  # opacity of the strongest color, as in reports


def as_text(
    entry: Mapping[str, Any], *, styled: bool, by_feature: bool = False, inside: bool = False
) -> str:
    """Return an explanation as lines.

    Unless ``styled``, words are marked by brackets. ``by_feature`` lists n-grams, walks or bands
    instead of words, atoms, nodes or steps, and ``inside`` units or steps of the network, too.
    """
    which = printable(entry.get("name") or str(entry["row"]))
    title = f"{entry['noun']} {which}: {printable(entry['prediction'])}"
    if "smiles" in entry:
        title += f", {printable(entry['smiles'])}"
    rows = rows_of(entry, by_feature=by_feature)
    lines = [title]
    if entry.get("by_place") and entry["nouns"][0] in TEXT_PLACES:
        lines.append(f"  {sentence(entry['by_place'], entry['listed'], styled=styled)}")
    columns = ["contribution", *(entry["parts"] if _has_both(rows) else [])]
    decimals = 1 + decimals_of(row["contribution"] for row in rows)
    largest = max((abs(row["contribution"]) for row in rows[:-2]), default=0.0) or 1.0
    width = max(len(_name(row)) for row in rows)
    if len(columns) > 1:
        lines.append(f"  {'':<{width}}  {'  '.join(f'{name:>12}' for name in columns)}")
    for row in rows:
        cells = [f"{row[name]:+12.{decimals}f}" if name in row else " " * 12 for name in columns]
        bar = "" if row["what"] == "score" else _bar(row["contribution"] / largest, styled=styled)
        lines.append(f"  {_name(row):<{width}}  {'  '.join(cells)}  {bar}".rstrip())
    return "\n".join([*lines, *(_inside(entry) if inside else [])])


def sentence(places: Sequence[Mapping[str, Any]], listed: int, *, styled: bool) -> str:
    """Return the words of a text, those with the largest contributions highlighted.

    Control characters are replaced.
    """
    sizes = sorted((abs(entry["contribution"]) for entry in places), reverse=True)
    least = (sizes[:listed][-1] if sizes else 0.0) or 1e-300
    shown = []
    for entry in (entry for entry in places if entry["places"]):
        word, value = printable(entry["what"]), entry["contribution"]
        if styled:
            word = _colored(word, value / sizes[0]) if value else word
        elif abs(value) >= least:
            word = f"[{word}]"
        shown.append(word)
    return " ".join(shown)


def _colored(text: str, strength: float) -> str:
    """Return black text on the color of the reports, over white."""
    opacity = OPACITY * abs(strength)
    color = (round(255 + opacity * (channel - 255)) for channel in (BLUE if strength > 0 else RED))
    return f"\x1b[30;48;2;{';'.join(map(str, color))}m{text}{PLAIN}"


def _bar(strength: float, *, styled: bool) -> str:
    count = round(BAR * min(1.0, abs(strength)))
    if not styled:
        return ("+" if strength > 0 else "-") * count
    return _colored(" " * count, 1.0 if strength > 0 else -1.0) if count else ""


def _has_both(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a line has contributions of the kernel and of the network."""
    return any(row.get("kernel") and row.get("network") for row in rows)


def _name(row: Mapping[str, Any]) -> str:
    """Return the name of a line, with the number of its places if there are several."""
    count = len(row.get("places", ()))
    return printable(row["what"]) + (f" ({count} places)" if count > 1 else "")


def _inside(entry: Mapping[str, Any]) -> list[str]:
    depth = entry.get("layers", 1)
    above = f"  of layer 1 of {depth}, contributions propagated through the layers above:"
    lines = _units(entry.get("units", [])) + _steps(entry.get("steps", []))
    return [*([above] if depth > 1 else []), *lines]


def _units(units: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["  units of the network with the largest contributions:"] if units else []
    for unit in units:
        half_life = "never" if unit["half_life"] is None else f"{unit['half_life']:.2f} words"
        head = f"    unit {unit['unit']} {unit['contribution']:+.4f}, half-life {half_life}, from"
        lines.append(head)
        lines += [
            f"      {n['contribution']:+10.4f}  {printable(n['text'])}" for n in unit["ngrams"]
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
