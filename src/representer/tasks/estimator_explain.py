"""Explained predictions of an estimator, as explanations.json and the terminal show them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.printable import printable, say
from representer.report import write_report
from representer.report.page import EXPLAINED
from representer.storage import atomic


def write_explanations(run: str | Path, entries: Sequence[dict[str, Any]]) -> None:
    """Write explanations.json into a run folder, and update the report of a finished run.

    Raises:
        StorageError: They cannot be written, for example because the folder is read-only.
    """
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines."""
    columns = ["contribution", *(entry["parts"] if len(entry["parts"]) > 1 else [])]
    rows = [
        (_named(one), *(f"{one[name]:+12.6f}" for name in columns))
        for one in entry["contributions"]
    ]
    others = [(f"{entry['others']['count']} others", entry["others"]["contribution"])]
    ends = [("constant", entry["constant"]), ("score", entry["score"])]
    pairs = (others if entry["others"]["count"] else []) + ends
    rows += [(name, f"{value:+12.6f}") for name, value in pairs]
    width = max(len(name) for name, *_ in rows)
    head = [f"  {'':<{width}}  {'  '.join(f'{name:>12}' for name in columns)}"]
    lines = [f"  {name:<{width}}  {'  '.join(cells)}" for name, *cells in rows]
    which = printable(entry.get("name") or str(entry["row"]))
    title = f"{entry['noun']} {which}: {printable(entry['prediction'])}"
    return "\n".join([title, *(head if len(columns) > 1 else []), *lines])


def _named(line: dict[str, Any]) -> str:
    """Return the name of a line, with the number of its places if there are several."""
    count = len(line["places"])
    return printable(line["what"]) + (f" ({count} places)" if count > 1 else "")
