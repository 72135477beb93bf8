"""Table and figure of the parity problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.storage.atomic import write_text
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.shared.table import heading, smoke_warning

_HEADS = (
    "bits", "ℓ1", "centers", "seed", "updates", "solved after", "coefficients", "variation",
    "error",
)  # fmt: skip


def write_report(request: Request, results: Sequence[dict[str, Any]]) -> Path:
    """Write ``table.md`` and ``functions.svg`` from finished runs.

    Returns:
        The path of the table.
    """
    lines = [
        *heading("M18 Fig. 2: parity by one unit", request),
        "One unit y = f(w·z + b) with g(u) = |u|, trained on the whole truth table by Adam at 0.01",
        "on the mean squared error. *Solved after* is the number of updates after which every row",
        "stays on the correct side of 1/2. *Coefficients* counts those above 0.001. *Variation* is",
        "the total variation of f over the range of the pre-activations, extended by a fifth on",
        "both sides. The paper shows the functions without figures and does not print the number",
        "of updates.",
        *smoke_warning(request),
        "",
        f"| {' | '.join(_HEADS)} |",
        f"| {' | '.join(['---:'] * len(_HEADS))} |",
    ]
    for run in results:
        s = run["setting"]
        solved = "not" if run["solved"] is None else str(run["solved"])
        lines.append(
            f"| {s['bits']} | {s['penalty']:g} | {s['centers']} | {s['seed']} | {s['updates']:,} |"
            f" {solved} | {run['large']} of {s['centers']} | {run['variation']:.2f} |"
            f" {run['error']:.1e} |"
        )
    if results:
        draw(request.out / "functions.svg", results)
        lines += ["", "![The learned functions](functions.svg)"]
    path = request.out / "table.md"
    write_text(path, "\n".join(lines) + "\n")
    return path


def draw(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Plot the first seed's functions in the order of Fig. 2, with the truth table as dots."""
    seed = results[0]["setting"]["seed"]
    drawings = []
    for run in results:
        s = run["setting"]
        if s["seed"] != seed:
            continue
        penalized = "ℓ1" if s["penalty"] else "no ℓ1"
        drawings.append(
            {
                "title": f"{s['bits']} bits, d = {s['centers']}, {penalized}",
                "lines": {"f": list(zip(run["grid"], run["function"], strict=True))},
                "dots": list(zip(run["sums"], run["targets"], strict=True)),
            }
        )
    panels(path, drawings, columns=3, title="Activations learned for parity, targets as dots")
