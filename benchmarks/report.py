"""The measurements as a page of Markdown."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path

import torch

from cases import SIZES, SMALL, STEP, UNBOUND, WITHOUT_CORE
from compiled import Compiled
from machine import cores, processor
from measure import STEP_MODES
from representer import __version__
from representer.ops import core
from results import PEAK, STEPS, TORCH, Goal, Measured, Results, modes_of
from scans import BATCH, UNITS, Row
from timing import Spread

ABOUT = """\
Written by the command below; no number here was typed. Random weights and inputs, float32. The
candidates of a table ran interleaved in one process, each once a round; a time is the median of
the rounds with the quartiles behind it, and a ratio was taken within each round. One thread is
measured by the process's CPU time, which other processes on the machine do not add to, though they
share its caches; several threads by the wall clock, which means nothing on a busy machine (the load
average is printed beside). Ratios within a tenth of 1 are a tie. Before anything was timed, its
values and gradients were compared with those of the torch backend.

forward runs without gradients; in "forward + backward" the input requires its gradient as well,
unless it says otherwise. The share of the peak counts the products alone: 2 T B G d (m + d) forward
for G gates, three times that forward and backward."""


def page(
    results: Results,
    goals: list[Goal],
    scans: list[Row],
    compiled: list[Compiled],
    command: str,
    load: tuple[str, str],
    remark: str,
) -> str:
    """Return the whole page."""
    parts = ["# CPU: measured speeds", ABOUT]
    parts += [remark] if remark else []
    parts += [machine_table(command, load), _limits(results), _goals(goals, results)]
    for threads in results.limits:
        title = "One thread, CPU time" if threads == 1 else f"{threads} threads, wall clock"
        parts += [f"## {title}", *_sizes(results, threads)]
        if threads == 1:
            parts += [*_steps(results), *_without_core(results)]
            parts += [_scans(scans)] if scans else []
            parts += [_compiled(compiled)] if compiled else []
    return "\n\n".join(parts) + "\n"


def publish(text: str, out: Path | None) -> None:
    """Write a page to a file, whole or not at all; print it if there is no file."""
    if out is None:
        print(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    whole = out.with_name(f"{out.name}.new")
    whole.write_text(text, encoding="utf-8")
    whole.replace(out)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table, the first column to the left and the others to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_table(
    command: str, load: tuple[str, str], packages: dict[str, str] | None = None
) -> str:
    """Return the machine, the versions and the command; ``packages`` adds versions by name."""
    sets = f"{', '.join(core.USABLE)}; used: {core.USABLE[0]}"
    rows = [
        ["processor", f"{processor()}, {cores()} cores"],
        ["instruction sets of the core", sets],
        ["system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"],
        ["versions", f"representer {__version__}, torch {torch.__version__}"],
        *([name, version] for name, version in (packages or {}).items()),
        ["date", datetime.date.today().isoformat()],
        ["load average, before and after", " → ".join(load)],
        ["command", f"`{command}`"],
    ]
    return table(["machine", ""], rows).replace("---:", "---")


def _limits(results: Results) -> str:
    rows = []
    for threads, limits in results.limits.items():
        for name, rate in limits.arithmetic.items():
            rows.append([f"multiplications and additions, {name}", str(threads), _giga(rate)])
        for size, rate in limits.memory.items():
            what = f"memory: two arrays of {size} MiB read, one written, bytes"
            rows.append([what, str(threads), _giga(rate)])
    head = ["the machine at its best", "threads", "10⁹ a second"]
    return f"## Limits of the machine\n\n{table(head, rows)}"


def _goals(goals: list[Goal], results: Results) -> str:
    rows = []
    for goal in goals:
        found = goal.found(results)
        if found is None:
            continue
        over = "share of the peak" if goal.over == PEAK else f"time of {goal.over} over its own"
        what = f"{goal.name}, {_title(goal.case)}, {goal.mode}: {over}"
        rows.append([what, f"≥ {goal.at_least:.2f}", spread(found), goal.verdict(results)])
    if not rows:
        return "## Goals\n\nNone of the cases of this run has a goal."
    return f"## Goals\n\n{table(['what', 'goal', 'measured', ''], rows)}"


def _sizes(results: Results, threads: int) -> list[str]:
    parts = []
    for case in SIZES:
        modes = [m for m in modes_of(case, SMALL) if (threads, case, m) in results.measured]
        if modes:
            measured = {m: results.measured[threads, case, m] for m in modes}
            parts.append(_modes(_title(case), measured, results, threads))
    return parts


def _steps(results: Results) -> list[str]:
    measured = {m: results.measured.get((1, STEPS, m)) for m in STEP_MODES}
    found = {mode: m for mode, m in measured.items() if m is not None}
    if not found:
        return []
    head = [""]
    for mode in found:
        head += [f"{mode}, µs", "nn.LSTM's time over its own", "nn.LSTMCell's over its own"]
    rows = []
    for name in next(iter(found.values())).rounds.seconds:
        row = [name]
        for mode, m in found.items():
            calls, _ = STEP_MODES[mode]
            row.append(spread(m.rounds.spread(name), 1e6 / calls))
            row += [spread(m.rounds.ratio(peer, name)) for peer in ("nn.LSTM", "nn.LSTMCell")]
        rows.append(row)
    return [f"### {_title(STEPS)}\n\n{table(head, rows)}"]


def _without_core(results: Results) -> list[str]:
    found = {mode: m for (_, case, mode), m in results.measured.items() if case == TORCH}
    return [_modes(_title(TORCH), found, results, 1)] if found else []


def _modes(title: str, measured: dict[str, Measured], results: Results, threads: int) -> str:
    """Return one table with a group of columns for each mode."""
    limits = results.limits[threads]
    one = next(iter(measured.values()))
    counts = bool(one.operations)
    head = [""]
    for mode in measured:
        head += [f"{mode}, ms", "nn.LSTM's over its own", *(["share of the peak"] * counts)]
    rows = []
    for name in one.rounds.seconds:
        row = [name]
        for m in measured.values():
            row += [spread(m.rounds.spread(name), 1e3), spread(m.rounds.ratio("nn.LSTM", name))]
            share = m.share(name, limits)
            row += [number(share.median) if share else ""] * counts
        rows.append(row)
    text = f"### {title}\n\n{table(head, rows)}"
    if threads > 1:
        loads = "; ".join(
            f"{mode} {m.load[0]:.1f} → {m.load[1]:.1f}" for mode, m in measured.items()
        )
        text += (
            f"\n\nLoad average: {loads}. What is said to be on one thread ran in the same rounds."
        )
    return text


def _scans(rows: list[Row]) -> str:
    shown = [
        [r.what, f"{r.size}", number(r.milliseconds), _giga(r.rate), number(r.share)] for r in rows
    ]
    head = ["", "MiB of an array", "ms", "10⁹ bytes a second", "share of the memory's"]
    return (
        f"### gated_scan over (T, {BATCH}, {UNITS})\n\nBytes are the least that has to be read and "
        "written: each operand, result and gradient once. The share is of what the memory gives "
        f"with arrays of the same size, see above.\n\n{table(head, shown)}"
    )


def _compiled(found: list[Compiled]) -> str:
    names = list(dict.fromkeys(name for c in found for name in c.milliseconds))
    rows = [
        [f"{_title(c.case)}, {c.mode}", c.outcome]
        + [number(c.milliseconds[n]) if n in c.milliseconds else "" for n in names]
        for c in found
    ]
    head = ["", "compiling", *(f"{name}, ms" for name in names)]
    return f"### torch.compile of the {UNBOUND}\n\n{table(head, rows)}"


def _title(case: str) -> str:
    if case == STEPS:
        return f"one step, B = {STEP.batch}, m = d = {STEP.units}"
    if case == TORCH:
        return f"the torch backend, without compiled code, {WITHOUT_CORE}"
    return str(SIZES[case])


def spread(found: Spread, scale: float = 1.0) -> str:
    """Write a median with the quartiles behind it."""
    median, low, high = (number(scale * n) for n in (found.median, found.low, found.high))
    return f"{median} ({low} – {high})"


def number(number: float) -> str:
    """Write a number with three digits."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}"


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.1f}"
