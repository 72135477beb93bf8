"""Tables and figures of the two-bits problem."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from representer.report.metrics import wilson_interval
from representer.tasks.recipe import Request
from representer_papers.kbdnn2018 import FUNCTIONS
from representer_papers.kbdnn2018 import LONG_TERM_CELLS as CELLS
from representer_papers.kbdnn2018.networks import TITLES
from representer_papers.kbdnn2018.pictures import panels
from representer_papers.kbdnn2018.problems import SIGNS
from representer_papers.shared.runs import stored
from representer_papers.shared.table import table_head, table_row, write_page

Runs = list[dict[str, Any]]
SPAN = 4.0  # functions are drawn on [-SPAN, SPAN]
_ABOUT = (
    "Sequences of random bits; the target is a function of the first two. Batches of 500, Adam at",
    "0.001 on the mean squared error, 20 units, 100 centers. The problem is solved when the",
    "accuracy over an epoch of ten new batches exceeds 99 %, as in the code, and that of the",
    "weights after it exceeds 99.5 % on 25,000 new sequences by three standard errors. A run",
    "stops after 100,000 updates, as in the paper, or earlier if the command's budget says so.",
    "Cells give the number of seeds that solve the problem, and in parentheses the mean number of",
    "updates of those. Rates are over all seeds and lengths of a row, with Wilson's 95 % interval.",
)


def write_report(request: Request) -> Path:
    """Write ``table.md``, ``curves.svg`` and ``functions.svg`` from a preset's finished runs."""
    found = stored(request.out, f"{request.preset}/*/*")
    runs = [{"setting": run.settings, **run.metrics} for run in found if run.metrics is not None]
    runs.sort(key=lambda run: (run["setting"]["time"], run["setting"]["seed"]))
    lines = ["", *table_head("network", "", align="ll")]
    lines += [table_row(f"`{cell}`", TITLES[cell]) for cell in CELLS if _matching(runs, cell=cell)]
    for function in FUNCTIONS:
        if own := _matching(runs, function=function):
            lines += ["", f"## {SIGNS[function]} (`{function}`)", "", *_section(own)]
    if runs:
        lines += ["", *_figures(request.out, runs)]
    title = "M18 Figs. 4 to 6: a function of the first two bits"
    return write_page(request, title, (f"Preset `{request.preset}`.", *_ABOUT), lines)


def _matching(runs: Runs, **wanted: Any) -> Runs:
    return [r for r in runs if all(r["setting"][name] == value for name, value in wanted.items())]


def _section(runs: Runs) -> list[str]:
    """Return a table of one function: networks by length."""
    times = sorted({run["setting"]["time"] for run in runs})
    lines = table_head("T", *map(str, times), "rate in %", "largest T that every seed solves")
    for cell in CELLS:
        if own := _matching(runs, cell=cell):
            cells = [_solved(_matching(own, time=t)) for t in times]
            lines.append(table_row(f"`{cell}`", *cells, _rate(own), _largest(own)))
    if tested := [run for run in runs if run["stopped_by"] == "solved"]:
        lines += ["", _about_tests(tested)]
    return lines


def _solved(runs: Runs) -> str:
    if not runs:
        return "–"
    updates = [run["updates"] for run in runs if run["stopped_by"] == "solved"]
    mean = f" ({sum(updates) / len(updates):,.0f})" if updates else ""
    most = max(run["updates"] for run in runs)
    short = f" in {most:,}" if len(updates) < len(runs) else ""
    return f"{len(updates)} of {len(runs)}{mean or short}"


def _rate(runs: Runs) -> str:
    count = sum(run["stopped_by"] == "solved" for run in runs)
    low, high = wilson_interval(count, len(runs))
    return f"{100 * count / len(runs):.0f} ({100 * low:.0f} – {100 * high:.0f})"


def _largest(runs: Runs) -> str:
    failed = {run["setting"]["time"] for run in runs if run["stopped_by"] != "solved"}
    return str(max({run["setting"]["time"] for run in runs} - failed, default="–"))


def _about_tests(runs: Runs) -> str:
    least = min(run["test"] for run in runs)
    line = f"Test accuracy of solved runs on 5,000 new sequences: at least {100 * least:.2f} %"
    if running := [run["test_running"] for run in runs if "test_running" in run]:
        line += f"; with running statistics, at least {100 * min(running):.2f} %"
    if steep := [run["steep"] for run in runs if "steep" in run and _is_learned(run)]:
        line += f". Units with |f'| > 1 on [-4, 4]: {min(steep)} to {max(steep)} of 20"
    return f"{line}."


def _figures(out: Path, runs: Runs) -> list[str]:
    drawings: list[dict[str, Any]] = []
    for function in FUNCTIONS:
        own = _matching(runs, function=function)
        counts = {cell: _points(_matching(own, cell=cell), solved=True) for cell in CELLS}
        updates = {cell: _points(_matching(own, cell=cell), solved=False) for cell in CELLS}
        sign = SIGNS[function]
        drawings += [
            {"title": f"{sign}: {what}", "lines": lines, "xlabel": "T", "marks": True, "ylim": ylim}
            for what, lines, ylim in (
                ("share of seeds that solve it", counts, (-0.05, 1.05)),
                ("mean updates", updates, None),
            )
        ]
    panels(
        out / "curves.svg", drawings, columns=2, title="Solved runs, and updates", size=(3.4, 2.0)
    )
    lines = ["![Solved runs, and updates](curves.svg)"]
    solved = [run for run in runs if "functions" in run and run["stopped_by"] == "solved"]
    if shown := [run for run in solved if _is_learned(run)]:
        run = max(shown, key=lambda r: (r["setting"]["function"] == "iff", r["setting"]["time"]))
        _draw_functions(out / "functions.svg", run)
        s = run["setting"]
        which = f"{SIGNS[s['function']]}, T = {s['time']}, `{s['cell']}`, seed {s['seed']}"
        caption = f"The learned functions on [-4, 4] ({which}); dashed frames where |f'| > 1:"
        lines += ["", caption, "", "![Learned functions](functions.svg)"]
    return lines


def _is_learned(run: dict[str, Any]) -> bool:
    return not run["setting"]["cell"].startswith("tanh")


def _points(runs: Runs, *, solved: bool) -> list[tuple[float, float]]:
    points = []
    for time in sorted({run["setting"]["time"] for run in runs}):
        own = _matching(runs, time=time)
        updates = [run["updates"] for run in own if run["stopped_by"] == "solved"]
        if solved:
            points.append((time, len(updates) / len(own)))
        elif updates:
            points.append((time, sum(updates) / len(updates)))
    return points


def _draw_functions(path: Path, run: dict[str, Any]) -> None:
    drawings = []
    for i, values in enumerate(run["functions"]):
        step = 2 * SPAN / (len(values) - 1)
        points = [(-SPAN + k * step, value) for k, value in enumerate(values)]
        is_steep = max(abs(b - a) / step for a, b in pairwise(values)) > 1
        drawings.append({"title": f"unit {i}", "lines": {"f": points}, "framed": is_steep})
    panels(path, drawings, columns=5, title="The learned functions", size=(1.5, 1.2))
