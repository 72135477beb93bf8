"""Table and figure of the parity problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from representer.tasks.recipe import Request
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.shared.runs import Stored, stored
from representer_papers.shared.table import table_head, table_row, write_page

_HEADS = (
    "bits", "ℓ1", "centers", "seed", "updates", "solved after", "coefficients", "variation",
    "error",
)  # fmt: skip
_ABOUT = (
    "One unit y = f(w·z + b) with g(u) = |u|, trained on the whole truth table by Adam at 0.01",
    "on the mean squared error. *Solved after* is the number of updates after which every row",
    "stays on the correct side of 1/2. *Coefficients* counts those above 0.001. *Variation* is",
    "the total variation of f over the range of the pre-activations, extended by a fifth on",
    "both sides. The paper shows the functions without figures and does not print the number",
    "of updates.",
)


def write_report(request: Request) -> Path:
    """Write ``table.md`` and ``functions.svg`` from the finished runs; return the table's path."""
    runs = [run for run in stored(request.out) if run.metrics is not None]
    runs.sort(
        key=lambda run: tuple(run.settings[n] for n in ("seed", "bits", "penalty", "centers"))
    )
    lines = ["", *table_head(*_HEADS, align="")]
    for _, s, found in runs:
        assert found is not None
        solved = "not" if found["solved"] is None else found["solved"]
        shown = s["bits"], f"{s['penalty']:g}", s["centers"], s["seed"], f"{s['updates']:,}"
        left = f"{found['large']} of {s['centers']}"
        lines.append(
            table_row(*shown, solved, left, f"{found['variation']:.2f}", f"{found['error']:.1e}")
        )
    if runs:
        draw(request.out / "functions.svg", runs)
        lines += ["", "![The learned functions](functions.svg)"]
    return write_page(request, "M18 Fig. 2: parity by one unit", _ABOUT, lines)


def draw(path: Path, runs: Sequence[Stored]) -> None:
    """Plot the first seed's functions in the order of Fig. 2, with the truth table as dots."""
    drawings = []
    for _, s, found in runs:
        if s["seed"] != runs[0].settings["seed"] or found is None:
            continue
        penalized = "ℓ1" if s["penalty"] else "no ℓ1"
        drawings.append(
            {
                "title": f"{s['bits']} bits, d = {s['centers']}, {penalized}",
                "lines": {"f": list(zip(found["grid"], found["function"], strict=True))},
                "dots": list(zip(found["sums"], found["targets"], strict=True)),
            }
        )
    panels(path, drawings, columns=3, title="Activations learned for parity, targets as dots")
