"""L19 Table 4: seven cells with wavelet filters on neural signals, subject by subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.tasks.recipe import Recipe, Reported, Request
from representer.tasks.signal.signal_task import SignalConfig
from representer_papers.rkm2019.lfp_sets import SIGNAL_SETS, SignalSet
from representer_papers.shared.datasets import wanted

if TYPE_CHECKING:
    from representer.data.signals import Recordings
    from representer.storage.run_folder import RunFolder
    from representer.tasks.signal.signal_folds import Fold

SOURCE = "L19 Table 4"
BASELINE = "band-power"
# By cell: the paper's name and accuracy on the recordings of 29 mice, best first.
CELLS: Mapping[str, tuple[str, float]] = {
    "lstm": ("n-gram LSTM", 80.24),
    "rkm-lstm": ("RKM-LSTM", 79.02),
    "rkm-cifg": ("RKM-CIFG", 77.58),
    "linear-kernel-gated": ("Linear Kernel w/ o_t", 76.11),
    "gated-cnn": ("Gated CNN", 76.02),
    "cnn": ("CNN (SyncNet)", 73.40),
    "linear-kernel": ("Linear Kernel", 73.13),
}
ROWS = (*CELLS, BASELINE)
LEAST_FOLDS = 8
REPORTED = {
    (cell, "mice"): Reported(accuracy, "% accuracy", SOURCE)
    for cell, (_, accuracy) in CELLS.items()
}


def reproduce(request: Request) -> Path:
    """Run the missing models, and write the table.

    Each subject is left out in turn. A budget below 1 leaves out groups of subjects instead: the
    number of groups is that fraction of the number of subjects, but at least eight.
    """
    from representer_papers.rkm2019.lfp_table import write_table

    root = request.data if request.data.is_dir() else Path()
    sets = wanted(root, request.datasets, SIGNAL_SETS)
    for signals in () if request.table_only else sets:
        _run_set(request, signals, request.cells or ROWS)
    return write_table(request, sets)


def config_of(signals: SignalSet, cell: str, request: Request, subjects: int, seed: int) -> Any:
    """Return the `SignalConfig` of a model: L19's sizes and the options of the data set.

    Args:
        signals: The data set.
        cell: A key of ``CELLS``.
        request: The request.
        subjects: Number of subjects.
        seed: Seed of folds, weights and order.
    """
    groups = max(LEAST_FOLDS, round(request.budget * subjects))
    chosen = SignalConfig(
        cell=cell, filters="wavelet", filter_length=40, hidden_size=30, seed=seed,
        folds=0 if request.budget == 1 or groups >= subjects else groups,
        threads=request.threads or 1, baselines=False,
    )  # fmt: skip
    chosen = replace(chosen, **signals.options)
    return replace(chosen, hidden_size=4, epochs=1, folds=2) if request.smoke else chosen


LFP = Recipe(
    name="rkm-lfp",
    title="Neural signals: seven cells with wavelet filters, each subject left out in turn",
    source=SOURCE,
    reproduce=reproduce,
    cells=ROWS,
    datasets=tuple(SIGNAL_SETS),
    reported=REPORTED,
)


def _run_set(request: Request, signals: SignalSet, rows: Sequence[str]) -> None:
    from representer_papers.shared.runs import Run, run_missing

    settings = {"budget": request.budget, "smoke": request.smoke, "options": dict(signals.options)}
    runs = [
        Run(
            request.out / signals.name / f"{row}-seed{seed}",
            {"row": row, "seed": seed, "baseline": signals.baseline, **settings},
        )
        for seed in request.seeds
        for row in rows
    ]

    def load() -> Recordings:
        return signals.recordings(request.data, smoke=request.smoke)

    run_missing(runs, load, partial(_run, request, signals))


def _run(
    request: Request,
    signals: SignalSet,
    folder: RunFolder,
    settings: Mapping[str, Any],
    recordings: Recordings,
) -> dict[str, Any]:
    from representer.tasks.signal.signal_loso import plan, run_loso
    from representer_papers.rkm2019.lfp_answers import KEY, described

    row = settings["row"]
    cell = "rkm-lstm" if row == BASELINE else row  # all rows have the same folds
    subjects = len(set(recordings.subjects.tolist()))
    config = config_of(signals, cell, request, subjects, settings["seed"])
    if row == BASELINE:
        config = replace(config, standardize=signals.baseline)
        figures = _baseline(recordings, plan(recordings, config), config.standardize)
    else:
        loso = run_loso(recordings, config, folder.path)
        figures = {
            "by_subject": loso.accuracy_by_subject(recordings),
            "seconds": loso.seconds,
            "parameters": _parameters(config, recordings),
            KEY: described(recordings, loso.rows, loso.probabilities),
        }
        if signals.planted:
            from representer_papers.rkm2019.lfp_recovery import recovered

            figures["recovered"] = recovered(recordings, config, folder.path, loso.folds)
    return {
        "classes": len(recordings.classes),
        "folds": len(plan(recordings, config)),
        "config": asdict(config),
        **figures,
    }


def _baseline(recordings: Recordings, folds: list[Fold], standardize: str) -> dict[str, Any]:
    from representer.tasks.signal.signal_baseline import band_power_baseline
    from representer.tasks.signal.signal_loso import accuracy_by_subject
    from representer_papers.rkm2019.lfp_answers import KEY, described

    result = band_power_baseline(recordings, folds, standardize)
    predictions = result.probabilities.argmax(axis=1)
    return {
        "by_subject": accuracy_by_subject(recordings, result.rows, predictions),
        "seconds": result.seconds,
        "parameters": None,
        KEY: described(recordings, result.rows, result.probabilities),
    }


def _parameters(config: Any, recordings: Recordings) -> int:
    from representer.tasks.signal.signal_fold import new_estimator

    network = new_estimator(config, recordings, 0).new_network(0)
    return sum(parameter.numel() for parameter in network.parameters())
