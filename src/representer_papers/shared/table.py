"""Common parts of all tables: the page, rows, and figures over seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer.training.generators import fingerprint
from representer_papers.shared.runs import (
    MACHINE,
    METRICS,
    RESUMED,
    Stored,
    chip,
    shown_command,
    stored,
)


def by_seed(out: Path, *fields: str) -> dict[Any, dict[int, Stored]]:
    """Return the runs in a folder by the named settings (a tuple if several), then by seed."""
    runs: dict[Any, dict[int, Stored]] = {}
    for run in stored(out):
        key = itemgetter(*fields)(run.settings)
        runs.setdefault(key, {})[run.settings["seed"]] = run
    return runs


def metrics_by_seed(out: Path, *fields: str) -> dict[Any, dict[int, dict[str, Any]]]:
    """Return the metrics of the finished runs, in the order of `by_seed`."""
    metrics = {
        key: {seed: run.metrics for seed, run in runs.items() if run.metrics is not None}
        for key, runs in by_seed(out, *fields).items()
    }
    return {key: of_key for key, of_key in metrics.items() if of_key}


def seeds_of(runs: Mapping[Any, Mapping[int, Any]]) -> list[int]:
    """Return the seeds of all runs in ascending order."""
    return sorted({seed for of_key in runs.values() for seed in of_key})


def seed_cells(
    runs: Mapping[int, dict[str, Any] | None],
    seeds: Sequence[int],
    figure: Callable[[dict[str, Any]], str],
) -> list[str]:
    """Return a cell for each seed: the figure of its metrics, "running" or "not run"."""
    shown = {seed: figure(run) if run else "running" for seed, run in runs.items()}
    return [shown.get(seed, "not run") for seed in seeds]


def write_page(
    request: Request, title: str, about: Sequence[str], lines: Iterable[str] = ()
) -> Path:
    """Write ``table.md`` into the output folder, and return its path."""
    machine = fingerprint()
    threads = request.threads or machine["threads"]
    made_on = f"torch {machine['torch']}, threads: {threads}, {machine['cpu capability']}"
    warning = "**Smoke run: tiny models, a few steps. The figures mean nothing.**"
    page = [
        f"# {title}",
        "",
        f"Made by `{shown_command(request)}` with {made_on}.",
        *_training(request.out),
        *about,
        *(["", warning] if request.smoke else []),
        *lines,
    ]
    path = request.out / "table.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, "\n".join(page) + "\n")
    return path


def _training(out: Path) -> list[str]:
    """Return how long the runs of a folder took, on what and when, and how many were resumed."""
    timed = [(path, *timing) for path in sorted(out.rglob(METRICS)) if (timing := _seconds(path))]
    if not timed:
        return []
    hours = sum(seconds for _, seconds, _ in timed) / 3600
    last = max(path.stat().st_mtime for path, *_ in timed)
    date = datetime.fromtimestamp(last, UTC).date().isoformat()
    resumed = sum((path.parent / RESUMED).exists() for path, *_ in timed)
    chips = " and ".join(sorted({name for *_, name in timed}))
    return [
        f"Training: {len(timed)} runs in {hours:.2f} hours on {chips}, the last on {date}; "
        f"{resumed or 'none'} of them interrupted and resumed."
    ]


def _seconds(path: Path) -> tuple[float, str] | None:
    """Return the seconds of training of a run, and its chip; None if nothing says how long."""
    metrics, machine = json.loads(path.read_text("utf-8")), path.with_name(MACHINE)
    machine_values = json.loads(machine.read_text("utf-8")) if machine.exists() else {}
    of_training = metrics.get("seconds") if isinstance(metrics, dict) else None
    seconds = machine_values.get("seconds") if of_training is None else of_training
    return None if seconds is None else (seconds, machine_values.get("chip") or chip())


def table_row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def table_head(*heads: str, align: str = "l") -> list[str]:
    """Return the first two rows of a table."""
    marks = ("---|" if side == "l" else "---:|" for side in align.ljust(len(heads), "r"))
    return [table_row(*heads), f"|{''.join(marks)}"]


def mean(values: Sequence[float], digits: int) -> str:
    """Format the mean over seeds, with the standard deviation if there are several; – for none."""
    if not values:
        return "–"
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def mean_accuracy(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    """Format the mean over seeds of accuracies in [0, 1], in %.

    A single seed is followed by its 95 % interval.
    """
    shown = mean([100 * accuracy for accuracy in accuracies], 2)
    if len(accuracies) > 1:
        return shown
    return f"{shown} ({100 * interval[0]:.2f} – {100 * interval[1]:.2f})"


LEVEL = 0.05  # of the paired t-test over seeds


def order_lines(
    name: str, paper: Mapping[str, float], ours: Mapping[str, Mapping[int, float]]
) -> list[str]:
    """Return sentences that compare the paper's ranking of the cells with ours.

    Args:
        name: Subject of the sentence, for example ``"1-gram"``.
        paper: The paper's figure of each cell.
        ours: Our figures of each cell, by seed.

    Returns:
        An empty line and a line of Markdown; nothing if a cell is missing, if the cells have
        different seeds, if there is only one cell, or if all figures of the paper or all means are
        equal.
    """
    seeds = sorted(next(iter(ours.values()), {}))
    is_order = len(paper) > 1 and set(paper) == set(ours)
    if not is_order or not seeds or any(sorted(by_seed) != seeds for by_seed in ours.values()):
        return []
    import numpy as np
    from scipy.stats import rankdata

    cells = list(paper)
    figures = {cell: [ours[cell][seed] for seed in seeds] for cell in cells}
    means = {cell: sum(figures[cell]) / len(seeds) for cell in cells}
    if 1 in (len(set(paper.values())), len(set(means.values()))):  # no order to compare
        return []
    ranks = [rankdata([ranked[c] for c in cells]) for ranked in (paper, means)]
    rank = np.corrcoef(*ranks)[0, 1]
    line = (
        f"{name}: the paper's order is {_ranking(paper)}; ours {_ranking(means)}. "
        f"Spearman's rank correlation {rank:.2f}."
    )
    if len(seeds) > 1:
        pairs = list(combinations(cells, 2))
        apart = [pair for pair in pairs if _differ(figures, pair)]
        agree = [pair for pair in apart if _sign(paper, pair) * _sign(means, pair) > 0]
        line += (
            f" Of {len(pairs)} pairs of cells, {len(apart)} differ by the paired t-test over "
            f"{len(seeds)} seeds (p < {LEVEL}), {len(agree)} of them as in the paper."
        )
    return ["", line]


def _ranking(figures: Mapping[str, float]) -> str:
    return " > ".join(sorted(figures, key=lambda cell: -figures[cell]))


def _sign(figures: Mapping[str, float], pair: tuple[str, str]) -> int:
    first, second = (figures[cell] for cell in pair)
    return (first > second) - (first < second)


def _differ(figures: Mapping[str, Sequence[float]], pair: tuple[str, str]) -> bool:
    from scipy.stats import ttest_rel

    first, second = (figures[cell] for cell in pair)
    gaps = {a - b for a, b in zip(first, second, strict=True)}
    if len(gaps) == 1:  # the test is undefined without variance
        return gaps != {0.0}
    return bool(ttest_rel(first, second).pvalue < LEVEL)
