"""Table and figure of the charging problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.storage.atomic import write_text
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018.networks import CELLS
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.kbdnn2018.problems import CHARGES
from representer_papers.shared.table import heading, smoke_warning

AT = (100, 1000, 10_000)


def write_report(request: Request, results: Sequence[dict[str, Any]]) -> Path:
    """Write ``table.md`` and ``accuracy.svg`` from finished runs.

    Returns:
        The path of the table.
    """
    low, high = CHARGES[request.preset]
    lines = [
        *heading("M18 Fig. 3: the charging problem", request),
        f"Preset `{request.preset}`: charges from {low} to {high}. Sequences of 30 steps, three",
        "of which are charged; networks of one unit, 20 centers; Adam at 0.001 on the squared",
        "error, a new batch of 500 sequences for each update (the paper: 10,000 updates). Figures",
        "are the accuracy in % over all steps of the test sequences, after the number of updates",
        "in the column's title. The paper shows curves without figures.",
        *smoke_warning(request),
        "",
    ]
    heads = [f"after {at:,}" for at in AT]
    lines += [f"| network | seed | updates | {' | '.join(heads)} | last | best |"]
    lines += [f"| --- | ---: | ---: | {'---: | ' * len(AT)}---: | ---: |"]
    for run in results:
        s, curve = run["setting"], run["curve"]
        near = [
            [y for at, y in curve if at <= wanted][-1:] if s["updates"] >= wanted else []
            for wanted in AT
        ]
        cells = [f"{100 * y[0]:.2f}" if y else "–" for y in near]
        best = max(y for _, y in curve)
        lines.append(
            f"| {CELLS[s['cell']]} (`{s['cell']}`) | {s['seed']} | {s['updates']:,} |"
            f" {' | '.join(cells)} | {100 * curve[-1][1]:.2f} | {100 * best:.2f} |"
        )
    if results:
        ones = 100 * results[0]["ones"]
        always = f"1 is correct at {ones:.1f} % of the steps, always 0 at {100 - ones:.1f} %"
        lines += ["", f"Always predicting {always}."]
        draw(request.out / "accuracy.svg", results)
        lines += ["", "![Accuracy during training, and the learned functions](accuracy.svg)"]
    path = request.out / "table.md"
    write_text(path, "\n".join(lines) + "\n")
    return path


def draw(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Plot the first seed's accuracy against updates on a log scale, and its learned functions."""
    seed = results[0]["setting"]["seed"]
    own = [run for run in results if run["setting"]["seed"] == seed]
    curves = {run["setting"]["cell"]: [(x, 100 * y) for x, y in run["curve"]] for run in own}
    functions = {run["setting"]["cell"]: run["function"] for run in own if "function" in run}
    drawings = [
        {"title": "accuracy on the test sequences", "lines": curves, "log": True,
         "xlabel": "updates", "ylabel": "% of steps"},
        {"title": "learned function of the unit", "lines": functions, "xlabel": "a"},
    ]  # fmt: skip
    panels(path, drawings, columns=2, title="The charging problem", size=(3.6, 2.7))
