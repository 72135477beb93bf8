"""Table and figure of the charging problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from representer.tasks.recipe import Request
from representer_papers.kbdnn2018.networks import CELLS
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.kbdnn2018.problems import CHARGES
from representer_papers.shared.runs import Stored, stored
from representer_papers.shared.table import table_head, table_row, write_page

AT = (100, 1000, 10_000)
_ABOUT = (
    "of which are charged; networks of one unit, 20 centers; Adam at 0.001 on the squared",
    "error, a new batch of 500 sequences for each update (the paper: 10,000 updates). Figures",
    "are the accuracy in % over all steps of the test sequences, after the number of updates",
    "in the column's title. The paper shows curves without figures.",
)


def write_report(request: Request) -> Path:
    """Write ``table.md`` and ``accuracy.svg`` from a preset's finished runs; return the path."""
    runs = [run for run in stored(request.out, f"{request.preset}-*") if run.metrics is not None]
    runs.sort(key=lambda run: (list(CELLS).index(run.settings["cell"]), run.settings["seed"]))
    heads = [f"after {at:,}" for at in AT]
    lines = ["", *table_head("network", "seed", "updates", *heads, "last", "best")]
    for _, s, found in runs:
        assert found is not None
        accuracies = [100 * y for _, y in found["curve"]]
        near = [
            [y for at, y in found["curve"] if at <= wanted][-1] if s["updates"] >= wanted else None
            for wanted in AT
        ]
        cells = ["–" if y is None else f"{100 * y:.2f}" for y in near]
        cells += [f"{accuracies[-1]:.2f}", f"{max(accuracies):.2f}"]
        title = f"{CELLS[s['cell']]} (`{s['cell']}`)"
        lines.append(table_row(title, s["seed"], f"{s['updates']:,}", *cells))
    if runs and runs[0].metrics:
        ones = 100 * runs[0].metrics["ones"]
        always = f"1 is correct at {ones:.1f} % of the steps, always 0 at {100 - ones:.1f} %"
        lines += ["", f"Always predicting {always}."]
        draw(request.out / "accuracy.svg", runs)
        lines += ["", "![Accuracy during training, and the learned functions](accuracy.svg)"]
    low, high = CHARGES[request.preset]
    charges = (
        f"Preset `{request.preset}`: charges from {low} to {high}. Sequences of 30 steps, three"
    )
    return write_page(request, "M18 Fig. 3: the charging problem", (charges, *_ABOUT), lines)


def draw(path: Path, runs: Sequence[Stored]) -> None:
    """Plot the first seed's accuracy against updates on a log scale, and its learned functions."""
    seed = runs[0].settings["seed"]
    own = {r.settings["cell"]: r.metrics for r in runs if r.settings["seed"] == seed and r.metrics}
    curves = {cell: [(x, 100 * y) for x, y in found["curve"]] for cell, found in own.items()}
    functions = {cell: found["function"] for cell, found in own.items() if "function" in found}
    drawings = [
        {"title": "accuracy on the test sequences", "lines": curves, "log": True,
         "xlabel": "updates", "ylabel": "% of steps"},
        {"title": "learned function of the unit", "lines": functions, "xlabel": "a"},
    ]  # fmt: skip
    panels(path, drawings, columns=2, title="The charging problem", size=(3.6, 2.7))
