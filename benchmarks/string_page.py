"""The measurements of the string-kernel layers as a page of Markdown."""

from __future__ import annotations

from typing import Any

from cases import SIZES
from report import machine_table, number, spread, table

ABOUT = """\
Written by the command below; no number here was typed. Random weights and inputs, float32, m = d.
The candidates of a table ran interleaved in one process on one thread, each once a round; a time is
the median of the rounds of process CPU time with the quartiles behind it, and a ratio was taken
within each round. Other processes do not add to CPU time, but share the caches and the cores'
units; ratios within a tenth of 1 are a tie. Before anything was timed, the values and gradients of
every layer of ours were compared with those of the torch backend.

The layers of ours are normalized as printed, with a decay that is a gate on x except where it says
otherwise. sru is the package of that name; it takes the same three products with x as "order 1,
highway", its gates see the state as well, and its training on a CPU is a loop in Python. In
"forward + backward" the input requires its gradient too. The share of the peak counts the products
alone, and three times those of forward in forward + backward. "At the peak" is what the ratio would
be if the products of our layer ran at the measured peak and nothing else took any time."""


def page(
    found: Any,
    goals: Any,
    command: str,
    loads: tuple[str, str],
    sru: str,
    remark: str,
) -> str:
    """Return the whole page."""
    parts = ["# String-kernel layers: measured speeds", ABOUT, *([remark] if remark else [])]
    parts += [machine_table(command, loads, {"sru": sru}), _limits(found), _goals(found, goals)]
    parts += [_case(found, case, mode) for case, mode in found.rounds]
    return "\n\n".join(parts) + "\n"


def _limits(found: Any) -> str:
    rates = found.limits.arithmetic.items()
    rows = [[name, f"{rate / 1e9:.1f}"] for name, rate in rates]
    return table(["multiplications and additions", "10⁹ a second"], rows)


def _goals(found: Any, goals: Any) -> str:
    rows = []
    for goal in goals:
        rounds = found.rounds.get((goal.case, goal.mode))
        if rounds is None or goal.over not in rounds.seconds:
            continue
        ratio = rounds.ratio(goal.over, goal.name)
        least = found.operations[goal.case, goal.mode][goal.name] / found.limits.peak
        limit = rounds.spread(goal.over).median / least
        verdict = "met" if ratio.median >= goal.at_least else "missed"
        what = f"{goal.name}, {SIZES[goal.case]}, {goal.mode}: time of {goal.over} over its own"
        rows.append([what, f"≥ {goal.at_least:.1f}", spread(ratio), number(limit), verdict])
    return f"## Goals\n\n{table(['what', 'goal', 'measured', 'at the peak', ''], rows)}"


def _case(found: Any, case: str, mode: str) -> str:
    rounds, counted = found.rounds[case, mode], found.operations[case, mode]
    peers = [name for name in ("nn.LSTM", "sru") if name in rounds.seconds]
    rows = []
    for name in rounds.seconds:
        taken = rounds.spread(name)
        share = counted[name] / found.limits.peak / taken.median
        ratios = [spread(rounds.ratio(peer, name)) for peer in peers]
        rows.append([name, spread(taken, 1e3), *ratios, number(share)])
    head = ["", "ms", *(f"{peer}'s over its own" for peer in peers), "share of the peak"]
    return f"## {SIZES[case]}, {mode}\n\n{table(head, rows)}"
