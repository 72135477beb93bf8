"""Entries of explanations.json as the report shows them: two groups of lines, marks, a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from representer.report.wording import decimals_of

LISTED = 8  # atoms of a line
DRAWN = 50  # objects of a list that are drawn
WEAK = 0.04  # of the strongest word; below, a word is not marked


def shown_entries(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return entries as in `shown_entry`; the objects of the first `DRAWN` are drawn."""
    return [shown_entry(entry, is_drawn=k < DRAWN) for k, entry in enumerate(entries)]


def shown_entry(entry: Mapping[str, Any], *, is_drawn: bool = True) -> dict[str, Any]:
    """Return an entry with what the page shows of it.

    Args:
        entry: The entry.
        is_drawn: False to say in place of the drawing that there is none.

    Returns:
        The entry with ``favor`` and ``against``, the lines of each sign; ``decimals`` of their
        numbers; ``columns``, the parts if there are several; ``marks`` of a text, and ``picture``
        of another object, drawn here and never read from a file.
    """
    is_graph = "smiles" in entry or "edges" in entry
    lines = [{**line, "atoms": is_graph and _atoms(line)} for line in entry["contributions"]]
    numbers = [line["contribution"] for line in lines]
    shown = {
        **entry,
        "favor": [line for line in lines if line["contribution"] >= 0],
        "against": [line for line in lines if line["contribution"] < 0],
        "columns": entry["parts"] if len(entry["parts"]) > 1 else [],
        "decimals": decimals_of(numbers),
        "picture": _picture(entry, is_drawn),
    }
    if "words" in entry:
        shown["marks"] = _marks(entry)
    return shown


def _atoms(line: Mapping[str, Any]) -> str:
    """Return the numbers of the atoms of a subtree, which its name does not have."""
    places = line["places"]
    if line["network"] or len(places) > 1:
        return ""
    found = [str(atom) for atom in places[0]]
    return ", ".join(found[:LISTED]) + (", …" if len(found) > LISTED else "")


def _marks(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each word of a text with its color, and the listed n-grams that it is part of."""
    ngrams: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for line in entry["contributions"]:
        for t in sorted({t for place in line["places"] for t in place}):
            ngrams[t].append(line)
    return [
        {"word": word, "value": value, "strength": strength, "ngrams": ngrams[t],
         "is_weak": abs(strength) < WEAK and not ngrams[t]}
        for t, (word, value, strength) in enumerate(
            zip(entry["words"], entry["by_word"], entry["strengths"], strict=True)
        )
    ]  # fmt: skip


def _picture(entry: Mapping[str, Any], is_drawn: bool) -> Any:
    if not is_drawn and not entry.keys().isdisjoint({"smiles", "edges", "moments"}):
        return f"Not drawn, since the page has {DRAWN} drawings of these already."
    if "smiles" in entry:
        from representer.data.molecules import parse_smiles
        from representer.report.molecule_drawing import draw_shares

        return draw_shares(parse_smiles(entry["smiles"]), entry)
    if "edges" in entry:
        from representer.report.graph_drawing import draw_graph

        return draw_graph(entry["nodes"], entry["edges"], entry["by_node"])
    if "moments" in entry:
        from representer.report.signal_figures import window

        return window(entry)
    return ""
