"""L19 Table 4: seven cells with wavelet filters on neural signals, subject by subject."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings, default_couplings
from representer.explain import band_importance, combined_lags, phase_lags
from representer.storage.run_folder import RunFolder
from representer.tasks.recipe import Request
from representer.tasks.signal.signal_baseline import spectral_baseline
from representer.tasks.signal.signal_data import standardized
from representer.tasks.signal.signal_fold import FoldResult, new_estimator
from representer.tasks.signal.signal_folds import accuracy_by_subject, plan
from representer.tasks.signal.signal_loso import estimators_of, run_loso
from representer.tasks.signal.signal_task import SignalConfig
from representer_papers.rkm2019.lfp_sets import SIGNAL_SETS, SignalSet
from representer_papers.rkm2019.lfp_table import PREDICTIONS, write_table
from representer_papers.rkm2019.published import AVERAGED, BASELINE, CELLS
from representer_papers.shared.datasets import wanted
from representer_papers.shared.lines import Measure
from representer_papers.shared.runs import Run, run_missing

ROWS = (*CELLS, AVERAGED, BASELINE)
LEAST_FOLDS = 8
MEASURE = Measure(
    "rkm-lfp", "mean test accuracy over subjects",
    lambda metrics: float(np.mean([*metrics["by_subject"].values()])),
    "folds", planned=lambda _: None,
)  # fmt: skip


def reproduce(request: Request) -> Path:
    """Run the missing models, and write the table.

    Each subject is left out in turn. A budget below 1 leaves out groups of subjects instead: the
    number of groups is that fraction of the number of subjects, but at least eight.
    """
    root = request.data if request.data.is_dir() else Path()
    sets = wanted(root, request.datasets, SIGNAL_SETS)
    for signals in sets:
        settings = {"baseline": signals.baseline, "options": dict(signals.options)}
        settings |= {"budget": request.budget, "smoke": request.smoke}
        runs = [
            Run(
                request.out / signals.name / f"{row}-seed{seed}",
                {"row": row, "seed": seed, **settings},
            )
            for seed in request.seeds
            for row in request.cells or ROWS
        ]
        load = partial(signals.recordings, request.data, smoke=request.smoke)
        run_missing(request, MEASURE, runs, load, partial(_run, request, signals))
    return write_table(request, sets)


def config_of(signals: SignalSet, cell: str, request: Request, subjects: int, seed: int) -> Any:
    """Return the configuration of a model: L19's sizes and the options of the data set."""
    groups = max(LEAST_FOLDS, round(request.budget * subjects))
    chosen = SignalConfig(
        answer="network", cell=cell, filters="wavelet", filter_length=40, stride=20, hidden_size=30,
        pooling="mean", average_weights=False, seed=seed,
        folds=0 if request.budget == 1 or groups >= subjects else groups,
        threads=request.threads or 1, baselines="none",
    )  # fmt: skip
    chosen = replace(chosen, **signals.options)
    if cell == "syncnet":  # as in Li et al. (2017): an output at every sample
        chosen = replace(chosen, stride=1, pooling="flatten", pool_length=40)
    return replace(chosen, hidden_size=4, epochs=1, folds=2) if request.smoke else chosen


def _run(
    request: Request,
    signals: SignalSet,
    folder: RunFolder,
    settings: Mapping[str, Any],
    recordings: Recordings,
) -> dict[str, Any]:
    row = settings["row"]
    cell = "rkm-lstm" if row == BASELINE else row  # all rows have the same folds
    subjects = len(set(recordings.subjects.tolist()))
    config = config_of(signals, cell, request, subjects, settings["seed"])
    figures: dict[str, Any] = {}
    if row == BASELINE:
        config = replace(config, standardize=signals.baseline)
        result = spectral_baseline(recordings, plan(recordings, config), config.standardize)
        parameters = None
    else:
        result = run_loso(recordings, config, folder.path)
        network = new_estimator(config, recordings, 0).new_network(0)
        parameters = sum(parameter.numel() for parameter in network.parameters())
        if signals.planted:
            figures["recovered"] = recovered(recordings, config, folder.path, result.folds)
    predictions = result.probabilities.argmax(axis=1)
    return {
        "classes": len(recordings.classes),
        "folds": len(plan(recordings, config)),
        "config": asdict(config),
        "by_subject": accuracy_by_subject(recordings, result.rows, predictions),
        "seconds": result.seconds,
        "parameters": parameters,
        PREDICTIONS: {
            "subjects": recordings.subjects[result.rows].tolist(),
            "labels": recordings.labels[result.rows].tolist(),
            "probabilities": result.probabilities.round(6).tolist(),
        },
        **figures,
    }


def recovered(
    recordings: Recordings, config: Any, folder: Path, folds: Sequence[FoldResult]
) -> dict[str, Any]:
    """Return the frequency and the phase lags that the models of all folds of a run use.

    Returns:
        ``frequency`` in Hz, the mean over folds, and that of the worst fold; ``lags`` in degrees
        from the combined evidence of all folds; and the planted values, which are those of the last
        of ``default_couplings``.
    """
    planted = default_couplings(len(recordings.channels))[-1]
    label = recordings.classes.index(planted.name)
    centers, evidence = [], []
    windows, rate = standardized(recordings, config).signals, recordings.sampling_rate
    for fold, trained in zip(folds, estimators_of(folder, folds), strict=True):
        (signals,) = trained.inputs_.collate(trained.inputs_.encode(windows))
        labels, rows = torch.from_numpy(recordings.labels), torch.from_numpy(fold.rows)
        importance = band_importance(trained.network_, signals[rows], labels[rows], rate)
        centers.append(importance.center)
        # at the recovered frequency: the planted one is unknown to a user
        frequency = min(max(importance.center, 3.0), rate / 2 - 3.0)
        evidence.append(phase_lags(trained.network_, signals, label, frequency, rate))
    lags = combined_lags(evidence).lags.numpy()
    off = np.degrees(np.angle(np.exp(1j * np.radians(lags - np.asarray(planted.lags)))))
    return {
        "frequency": float(np.mean(centers)),
        "frequency error": float(np.mean(centers) - planted.frequency),
        "worst fold": float(max(centers, key=lambda f: abs(f - planted.frequency))),
        "lags": lags.tolist(),
        "largest lag error": math.fabs(max(off.tolist(), key=abs)),
        "planted": {"frequency": planted.frequency, "lags": list(planted.lags)},
    }
