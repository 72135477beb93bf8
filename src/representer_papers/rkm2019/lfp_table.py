"""The table of Sync-RKMs: mean accuracy over subjects, paired tests, and recovered parameters."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from representer.report import figures
from representer.report.canvas import svg
from representer.storage import atomic
from representer.tasks.recipe import Request
from representer.tasks.signal.signal_paired import paired_over_subjects
from representer_papers.rkm2019.lfp_sets import SignalSet
from representer_papers.rkm2019.published import AVERAGED, BASELINE, CELLS
from representer_papers.shared.order import order_lines
from representer_papers.shared.table import (
    mean,
    metrics_by_seed,
    table_head,
    table_row,
    write_page,
)

LEVEL = 0.05  # a larger p-value makes two results level
WIDTH = 7.0  # of a figure, in inches
PREDICTIONS = "predictions"  # key of a run's predictions in its metrics
Runs = dict[str, dict[int, dict[str, Any]]]  # by row and seed
_ABOUT = (
    "",
    "Accuracy in %, averaged over subjects. Each fold trains new weights; validation subjects of",
    "the training side choose the epoch. Filters of 40 samples, 30 per gate, as in the paper; its",
    "recordings of 29 mice are not public, so its column serves to compare the order alone. The",
    "EEGs are resampled to 160 Hz, and a cell makes a step every 10 samples. Signals are",
    "standardized by subject; for the alcoholism group, where every subject has one class, by",
    "window, and there all training subjects are trained on for 40 epochs, since a few subjects",
    "choose an epoch badly. Band power has its best-performing standardization: by subject, and",
    "for alcoholism by the training subjects. ± is the standard deviation over seeds, which differ",
    "in folds and weights. Training windows of the EEGs are augmented (sign, position in time,",
    "gain, noise), except for the condition, where the evoked response has a fixed sign and",
    "position. SyncNet, the paper's row CNN, has relu, the largest output of every 40 samples, and",
    "one linear layer on all of these (Li et al., 2017); the CNN of Table 1, averaged over time,",
    "which can tell neither powers nor phases, is a row of its own. With fewer folds than",
    "subjects, a fold leaves out a group of subjects.",
)
_TITLES = {cell: title for cell, (title, _) in CELLS.items()} | {
    AVERAGED: "CNN, mean over time",
    BASELINE: "log band power, logistic regression",
}


def write_table(request: Request, sets: Sequence[SignalSet]) -> Path:
    """Write ``table.md`` from all results in the folder, and a figure of the subjects of each set.

    Returns:
        The path of the table.
    """
    runs: dict[str, Runs] = {s.name: metrics_by_seed(request.out / s.name, "row") for s in sets}
    lines = ["", *_summary(sets, runs)]
    for signals in sets:
        if results := runs[signals.name]:
            lines += ["", *_section(request, signals, results)]
    return write_page(request, "L19 Table 4: neural signals", _ABOUT, lines)


def _summary(sets: Sequence[SignalSet], runs: dict[str, Runs]) -> list[str]:
    heads = ["L19, mice", *(signals.title for signals in sets)]
    lines = table_head("", *heads)
    for name, title in _TITLES.items():
        paper = f"{CELLS[name][1]:.2f}" if name in CELLS else "–"
        lines.append(table_row(title, paper, *(_mean(runs[s.name].get(name, {})) for s in sets)))
    return lines


def _mean(runs: dict[int, dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    return mean([100 * statistics.mean(run["by_subject"].values()) for run in runs.values()], 1)


def _section(request: Request, signals: SignalSet, rows: Runs) -> list[str]:
    some = next(iter(next(iter(rows.values())).values()))
    seeds = sorted({seed for runs in rows.values() for seed in runs})
    subjects = some["by_subject"]
    lines = [
        f"## {signals.title[0].upper()}{signals.title[1:]}",
        "",
        f"{len(subjects)} subjects, {some['folds']} folds, seeds {', '.join(map(str, seeds))}.",
    ]
    cells = {row: runs for row, runs in rows.items() if row in CELLS}
    means = {
        row: {seed: 100 * statistics.mean(run["by_subject"].values()) for seed, run in runs.items()}
        for row, runs in cells.items()
    }
    lines += order_lines(signals.title, {row: CELLS[row][1] for row in means}, means)
    lines += _memory(cells)
    if BASELINE in rows and cells:
        best = max(means, key=lambda row: statistics.mean(means[row].values()))
        lines += ["", _against(cells[best], rows[BASELINE], best)]
        figure = f"{signals.name}.svg"
        ours, baseline = (_by_subject(runs) for runs in (cells[best], rows[BASELINE]))
        drawn = figures.subjects_drawing(WIDTH, ours, baseline, 1 / some["classes"])
        atomic.write_text(request.out / figure, svg(*drawn))
        lines += ["", f"![Accuracy of {best} by subject, beside the baseline]({figure})"]
    return lines + _ensembles(rows) + _recovery(cells)


def ensemble_accuracy(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, float] | None:
    """Return each subject's accuracy with the ensemble over seeds, by their mean probabilities.

    Every window is predicted by models that were trained without its subject, whatever groups the
    folds of a seed leave out. None if there are fewer than two seeds, or if some of them predicted
    other windows or have no stored predictions.
    """
    stored = [run[PREDICTIONS] for run in runs.values() if PREDICTIONS in run]
    windows = [(own["subjects"], own["labels"]) for own in stored]
    if len(stored) < max(2, len(runs)) or any(own != windows[0] for own in windows):
        return None
    probabilities = np.mean([own["probabilities"] for own in stored], axis=0)
    subjects, labels = np.asarray(stored[0]["subjects"]), np.asarray(stored[0]["labels"])
    right = probabilities.argmax(axis=1) == labels
    return {str(s): float(right[subjects == s].mean()) for s in dict.fromkeys(subjects.tolist())}


def _ensembles(rows: Runs) -> list[str]:
    """Return the table of the ensembles over seeds, the best first, beside the baseline."""
    every = {row: own for row, runs in rows.items() if (own := ensemble_accuracy(runs)) is not None}
    baseline = every.pop(BASELINE, None)
    if not every:
        return []
    heads = "seeds", "accuracy", "minus the baseline", "subjects better, worse", "p"
    lines = ["", "Ensembles over the seeds (mean of the models' probabilities):", ""]
    lines += table_head("", *heads)
    for name in sorted(every, key=lambda row: -statistics.mean(every[row].values())):
        compared = ["", "", ""]
        if baseline is not None:
            test = paired_over_subjects(every[name], baseline)
            counts = f"{test['better']}, {test['worse']}"
            compared = [f"{100 * test['mean']:+.1f}", counts, f"{test['p']:.3f}"]
        lines.append(table_row(_TITLES[name], len(rows[name]), _percent(every[name]), *compared))
    if baseline is not None:
        shown = len(rows[BASELINE]), _percent(baseline), "", "", ""
        lines.append(table_row(_TITLES[BASELINE], *shown))
    return lines


def _percent(by_subject: dict[str, float]) -> str:
    return f"{100 * statistics.mean(by_subject.values()):.1f}"


def _memory(cells: Runs) -> list[str]:
    """Compare the RKM-LSTM with the cells without memory, subject by subject."""
    if not {"rkm-lstm", "syncnet", "gated-cnn"} <= cells.keys():
        return []
    sentences = []
    for row in ("syncnet", "gated-cnn"):
        test = paired_over_subjects(_by_subject(cells["rkm-lstm"]), _by_subject(cells[row]))
        gap = f"{100 * test['mean']:+.1f} points, p = {test['p']:.3f}"
        sentences.append(f"{_verdict(test)} the {_TITLES[row]} ({gap})")
    return ["", f"Does memory help? The RKM-LSTM is {' and '.join(sentences)}."]


def _verdict(test: Mapping[str, Any]) -> str:
    """Return the relation that the paired test over subjects supports."""
    if not test["p"] < LEVEL:
        return "level with"
    return "ahead of" if test["mean"] > 0 else "behind"


def _against(ours: dict[int, Any], baseline: dict[int, Any], name: str) -> str:
    test = paired_over_subjects(_by_subject(ours), _by_subject(baseline))
    return (
        f"{_TITLES[name]}, the cell with the highest accuracy, is {_verdict(test)} the baseline: "
        f"{100 * test['mean']:+.1f} points; higher on {test['better']} subjects, lower on "
        f"{test['worse']} (Wilcoxon's signed-rank test, p = {test['p']:.3f})."
    )


def _by_subject(runs: dict[int, Any]) -> dict[str, float]:
    """Return each subject's accuracy, averaged over seeds."""
    every = [run["by_subject"] for run in runs.values()]
    return {subject: statistics.mean(run[subject] for run in every) for subject in every[0]}


def _recovery(cells: Runs) -> list[str]:
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
        f"Planted: {planted['frequency']:g} Hz, lags of {lags} degrees. Recovered from the models",
        "of all folds (`band_importance`, `phase_lags`):",
        "",
        *table_head("", "seed", "frequency, Hz", "worst fold, Hz", "lags, degrees", "largest error",
              align="lrrrlr"),
    ]  # fmt: skip
    for name, seed, run in rows:
        recovered = ", ".join(f"{lag:.1f}" for lag in run["lags"])
        figures = f"{run['frequency']:.2f}", f"{run['worst fold']:.2f}", recovered
        lines.append(table_row(_TITLES[name], seed, *figures, f"{run['largest lag error']:.1f}"))
    return lines
