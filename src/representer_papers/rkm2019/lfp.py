"""L19 Table 4: seven cells with wavelet filters on neural signals, subject by subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError
from representer.tasks.recipe import Recipe, Reported, Request
from representer.tasks.signal.signal_config import SignalConfig
from representer_papers.rkm2019.lfp_sets import SIGNAL_SETS, SignalSet
from representer_papers.shared.datasets import wanted

if TYPE_CHECKING:
    from representer.data.signals import Recordings
    from representer.tasks.signal.signal_folds import Fold

SOURCE = "L19 Table 4"
BASELINE = "band-power"
# Cell: the paper's name and accuracy on the recordings of 29 mice, best first.
CELLS: Mapping[str, tuple[str, float]] = {
    "lstm": ("n-gram LSTM", 80.24),
    "rkm-lstm": ("RKM-LSTM", 79.02),
    "rkm-cifg": ("RKM-CIFG", 77.58),
    "linear-kernel-gated": ("Linear Kernel w/ o_t", 76.11),
    "gated-cnn": ("Gated CNN", 76.02),
    "cnn": ("CNN (SyncNet)", 73.40),
    "linear-kernel": ("Linear Kernel", 73.13),
}
LEAST_FOLDS = 8
REPORTED = {
    (cell, "mice"): Reported(accuracy, "% accuracy", SOURCE)
    for cell, (_, accuracy) in CELLS.items()
}


def run(request: Request) -> Path:
    """Run what is not yet there, and write the table.

    Each subject is left out in turn. A budget below 1 leaves groups of subjects out in their place,
    so many as that part of the subjects but at least eight.

    Returns:
        The path of the table.

    Raises:
        ArgumentError: If a choice is not one of those there are, or a folder holds results of other
            settings.
        DataError: If a data set is missing.
    """
    from representer_papers.rkm2019.lfp_table import write_table

    rows = _rows(request)
    root = request.data if request.data.is_dir() else Path()
    sets = wanted(root, request.datasets, SIGNAL_SETS)
    for signals in sets if not request.table_only else ():
        _run_set(request, signals, rows)
    return write_table(request, sets)


def config_of(
    signals: SignalSet, cell: str, request: Request, subjects: int, seed: int
) -> SignalConfig:
    """Return the settings of a model: L19's sizes, and what the data set has of its own.

    Args:
        signals: The set.
        cell: A key of ``CELLS``.
        request: Of the reproduction.
        subjects: How many the set has.
        seed: Of folds, weights and order.
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
    run=run,
    reported=REPORTED,
)


def _rows(request: Request) -> tuple[str, ...]:
    for name in ("filter_lengths", "lengths", "vectors"):
        if getattr(request, name):
            raise ArgumentError(name, getattr(request, name), "nothing, for this recipe")
    if request.preset != "paper":
        raise ArgumentError("preset", request.preset, "'paper', the only one of this recipe")
    known = (*CELLS, BASELINE)
    for row in request.cells:
        if row not in known:
            raise ArgumentError("cells", row, f"some of {', '.join(known)}")
    return request.cells or known


def _run_set(request: Request, signals: SignalSet, rows: tuple[str, ...]) -> None:
    from representer.tasks.signal.signal_loso import plan, run_loso
    from representer.tasks.storage import atomic
    from representer_papers.rkm2019.lfp_answers import KEY, described

    of = signals.recordings(request.data, smoke=request.smoke)
    for seed in request.seeds:
        for row in rows:
            cell = "rkm-lstm" if row == BASELINE else row  # the folds are those of all cells
            config = config_of(signals, cell, request, len(set(of.subjects.tolist())), seed)
            folder = request.out / signals.name / f"{row}-seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            if row == BASELINE:
                config = replace(config, standardize=signals.baseline)
                found = _baseline(of, plan(of, config), config.standardize)
            else:
                loso = run_loso(of, config, folder)
                found = {
                    "by_subject": loso.accuracy_by_subject(of),
                    "seconds": loso.seconds,
                    "parameters": _parameters(config, of),
                    KEY: described(of, loso.rows, loso.probabilities),
                }
                if signals.planted:
                    from representer_papers.rkm2019.lfp_recovery import recovered

                    found["recovered"] = recovered(of, folder, loso.folds)
            result = {"row": row, "seed": seed, "classes": len(of.classes), **found}
            result |= {"folds": len(plan(of, config)), "config": asdict(config)}
            atomic.write_json(folder / "result.json", result)


def _baseline(of: Recordings, folds: list[Fold], standardize: str) -> dict[str, Any]:
    from representer.tasks.signal.signal_baseline import band_power_baseline
    from representer.tasks.signal.signal_loso import accuracy_by_subject
    from representer_papers.rkm2019.lfp_answers import KEY, described

    answers = band_power_baseline(of, folds, standardize)
    by_subject = accuracy_by_subject(of, answers.rows, answers.probabilities.argmax(axis=1))
    return {
        "by_subject": by_subject,
        "seconds": answers.seconds,
        "parameters": None,
        KEY: described(of, answers.rows, answers.probabilities),
    }


def _parameters(config: SignalConfig, of: Recordings) -> int:
    from representer.tasks.signal.signal_model import build_model

    return sum(parameter.numel() for parameter in build_model(config, of, 0).parameters())
