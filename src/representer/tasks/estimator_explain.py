"""Explained predictions of an estimator, as explanations.json and the terminal show them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.estimators.explanation import Explanation
from representer.printable import printable, say
from representer.report import write_report
from representer.report.page import EXPLAINED
from representer.storage import atomic


def entry_of(noun: str, row: int, prediction: str, explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values.

    Args:
        noun: What the object is.
        row: Its row in the data, counted from 1, or its line.
        prediction: With its probability or standard deviation.
        explanation: Its contributions.
    """
    listed, others = (
        explanation.contributions[: explanation.listed],
        explanation.contributions[explanation.listed :],
    )
    return {
        "noun": noun,
        "row": row,
        "prediction": prediction,
        "score": float(explanation.score),
        "constant": float(explanation.baseline),
        "contributions": [
            {"what": one.what, "where": list(one.where), "contribution": float(one.contribution)}
            for one in listed
        ],
        "others": {
            "count": len(others),
            "contribution": float(sum(one.contribution for one in others)),
        },
    }


def write_explanations(run: str | Path, entries: Sequence[dict[str, Any]]) -> None:
    """Write explanations.json into a run folder, and update the report of a finished run."""
    folder = Path(run)
    atomic.write_json(folder / EXPLAINED, entries)
    if all((folder / name).is_file() for name in ("metrics.json", "details.json")):
        say(f"report: {write_report(folder)}")


def as_text(entry: dict[str, Any], *, styled: bool) -> str:
    """Return an explanation as lines.

    Args:
        entry: Entry returned by ``explain``.
        styled: Without effect: nothing is marked.
    """
    rows = [(printable(one["what"]), one["contribution"]) for one in entry["contributions"]]
    if count := entry["others"]["count"]:
        rows.append((f"{count} others", entry["others"]["contribution"]))
    rows += [("constant", entry["constant"]), ("score", entry["score"])]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {value:+10.6f}" for name, value in rows]
    title = f"{entry['noun']} {entry['row']}: {printable(entry['prediction'])}"
    return "\n".join([title, *lines])
