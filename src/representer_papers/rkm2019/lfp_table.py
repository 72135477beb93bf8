"""The table of Sync-RKMs: mean accuracy over subjects, tests over them, and what was recovered."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from representer.tasks.recipe import Request
from representer.tasks.report import figures
from representer.tasks.signal.signal_paired import paired_over_subjects
from representer.tasks.storage import atomic
from representer_papers.rkm2019.lfp import BASELINE, CELLS
from representer_papers.rkm2019.lfp_answers import together
from representer_papers.rkm2019.lfp_sets import SignalSet
from representer_papers.shared.order import order_lines
from representer_papers.shared.table import heading, smoke_warning

Found = dict[str, dict[int, dict[str, Any]]]  # row, seed
_ABOUT = (
    "",
    "Mean over the subjects of each one's accuracy in %, with fresh weights in each fold, whose",
    "epoch subjects of the training side choose. Filters of 40 samples, 30 a gate, as in the",
    "paper; its recordings of 29 mice are not public, so that its column is there for the order",
    "alone. The EEGs are brought to 160 Hz, and a cell makes a step every 10 samples.",
    "Standardization by subject; for the alcoholism group, where a subject has one class, by the",
    "window, and there all training subjects are trained on, for 40 epochs: few subjects choose",
    "badly. Band power is standardized by what it is best with: by subject, and for alcoholism by",
    "the training subjects. ± is the deviation over seeds, which differ in folds and weights.",
    "Signs, places in time, gains and noise of training windows are drawn at random on the EEGs,",
    "but not for the condition: the answer to a picture has its sign and its place in time.",
    "Where there are fewer folds than subjects, a fold leaves a group of subjects out.",
)
_TITLES = {cell: title for cell, (title, _) in CELLS.items()} | {
    BASELINE: "log band power, logistic regression"
}


def write_table(request: Request, sets: Sequence[SignalSet]) -> Path:
    """Write ``table.md`` of all results in the folder, and a picture of the subjects of each set.

    Returns:
        The path of the table.
    """
    found = {signals.name: _results(request.out / signals.name) for signals in sets}
    lines = [*heading("L19 Table 4: neural signals", request), *_ABOUT, *smoke_warning(request)]
    lines += ["", *_summary(sets, found)]
    for signals in sets:
        if results := found[signals.name]:
            lines += ["", *_section(request, signals, results)]
    path = request.out / "table.md"
    atomic.write_text(path, "\n".join(lines) + "\n")
    return path


def _results(folder: Path) -> Found:
    found: Found = {}
    for path in sorted(folder.glob("*/result.json")):
        described = json.loads(path.read_text("utf-8"))
        found.setdefault(described["row"], {})[described["seed"]] = described
    return found


def _summary(sets: Sequence[SignalSet], found: dict[str, Found]) -> list[str]:
    heads = ["L19, mice", *(signals.title for signals in sets)]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for row, title in _TITLES.items():
        paper = f"{CELLS[row][1]:.2f}" if row in CELLS else "–"
        cells = [_mean(found[signals.name].get(row, {})) for signals in sets]
        lines.append(f"| {title} | " + " | ".join([paper, *cells]) + " |")
    return lines


def _mean(runs: dict[int, dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    means = [100 * statistics.mean(run["by_subject"].values()) for run in runs.values()]
    if len(means) == 1:
        return f"{means[0]:.1f}"
    return f"{statistics.mean(means):.1f} ± {statistics.stdev(means):.1f}"


def _section(request: Request, signals: SignalSet, found: Found) -> list[str]:
    some = next(iter(next(iter(found.values())).values()))
    seeds = sorted({seed for runs in found.values() for seed in runs})
    subjects = some["by_subject"]
    lines = [
        f"## {signals.title[0].upper()}{signals.title[1:]}",
        "",
        f"{len(subjects)} subjects, {some['folds']} folds, seeds {', '.join(map(str, seeds))}.",
    ]
    cells = {row: runs for row, runs in found.items() if row in CELLS}
    means = {
        row: [100 * statistics.mean(run["by_subject"].values()) for _, run in sorted(runs.items())]
        for row, runs in cells.items()
    }
    order = order_lines(signals.title, {row: CELLS[row][1] for row in means}, means)
    lines += ["", *order] if order else []
    lines += _memory(cells)
    if BASELINE in found and cells:
        best = max(means, key=lambda row: statistics.mean(means[row]))
        lines += ["", _against(cells[best], found[BASELINE], best)]
        picture = f"{signals.name}.svg"
        ours, theirs = (_by_subject(runs) for runs in (cells[best], found[BASELINE]))
        drawn = figures.subjects(ours, theirs, 1 / some["classes"])
        atomic.write_text(request.out / picture, drawn)
        lines += ["", f"![Accuracy of {best} by subject, beside the baseline]({picture})"]
    return lines + _together(found) + _recovery(cells)


def _together(found: Found) -> list[str]:
    """Return what the models of all seeds answer together, beside the baseline."""
    answers = together(found)
    baseline = answers.pop(BASELINE, None)
    if not answers:
        return []
    lines = ["", "The seeds' models answering together, by the mean of their probabilities:", ""]
    lines += ["| | seeds | accuracy | less the baseline | better, worse | p |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for row, by_subject in answers.items():
        line = f"| {_TITLES[row]} | {len(found[row])} | {_percent(by_subject)} |"
        if baseline is None:
            lines.append(f"{line} | | |")
            continue
        of = paired_over_subjects(by_subject, baseline)
        counts = f"{of['better']}, {of['worse']}"
        lines.append(f"{line} {100 * of['mean']:+.1f} | {counts} | {of['p']:.3f} |")
    if baseline is not None:
        lines.append(
            f"| {_TITLES[BASELINE]} | {len(found[BASELINE])} | {_percent(baseline)} | | | |"
        )
    return lines


def _percent(by_subject: dict[str, float]) -> str:
    return f"{100 * statistics.mean(by_subject.values()):.1f}"


def _memory(cells: Found) -> list[str]:
    """Say whether the cells with memory are ahead of those without, subject by subject."""
    if not {"rkm-lstm", "cnn", "gated-cnn"} <= cells.keys():
        return []
    told = []
    for row in ("cnn", "gated-cnn"):
        found = paired_over_subjects(_by_subject(cells["rkm-lstm"]), _by_subject(cells[row]))
        told.append(f"{_TITLES[row]} by {100 * found['mean']:+.1f} points (p = {found['p']:.3f})")
    return ["", f"Does memory help? The RKM-LSTM is ahead of the {' and of the '.join(told)}."]


def _against(ours: dict[int, Any], theirs: dict[int, Any], name: str) -> str:
    found = paired_over_subjects(_by_subject(ours), _by_subject(theirs))
    return (
        f"{_TITLES[name]}, the best here, less the baseline: {100 * found['mean']:+.1f} points; "
        f"better on {found['better']} subjects, worse on {found['worse']} "
        f"(Wilcoxon's signed-rank test, p = {found['p']:.3f})."
    )


def _by_subject(runs: dict[int, Any]) -> dict[str, float]:
    """Return each subject's accuracy, in the mean over seeds."""
    every = [run["by_subject"] for run in runs.values()]
    return {subject: statistics.mean(run[subject] for run in every) for subject in every[0]}


def _recovery(cells: Found) -> list[str]:
    rows = [
        (row, seed, run["recovered"])
        for row, runs in cells.items()
        for seed, run in sorted(runs.items())
        if "recovered" in run
    ]
    if not rows:
        return []
    planted = rows[0][2]["planted"]
    lags = ", ".join(f"{lag:g}" for lag in planted["lags"])
    lines = [
        "",
        f"Planted: {planted['frequency']:g} Hz, lags of {lags} degrees. Recovered from what the",
        "models of all folds go by (`band_importance`, `phase_lags`):",
        "",
        "| | seed | frequency, Hz | worst fold, Hz | lags, degrees | largest error |",
        "|---|---:|---:|---:|---|---:|",
    ]
    for row, seed, run in rows:
        found = ", ".join(f"{lag:.1f}" for lag in run["lags"])
        lines.append(
            f"| {_TITLES[row]} | {seed} | {run['frequency']:.2f} | {run['worst fold']:.2f} | "
            f"{found} | {run['largest lag error']:.1f} |"
        )
    return lines
