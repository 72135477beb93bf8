"""Recover the planted frequency and phase lags from models of the synthetic recordings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings, default_couplings
from representer.estimators import SignalClassifier
from representer.explain import band_importance, combined_lags, phase_lags
from representer.tasks.signal.signal_data import standardized
from representer.tasks.signal.signal_fold import FoldResult, folder_name
from representer.tasks.signal.signal_loso import FOLDS


def recovered(
    recordings: Recordings, config: Any, folder: Path, folds: Sequence[FoldResult]
) -> dict[str, Any]:
    """Return the frequency and the phase lags that the models of all folds use.

    Args:
        recordings: The recordings; the planted class is the last of ``default_couplings``.
        config: The `SignalConfig` of the run.
        folder: Run folder.
        folds: Results of its folds.

    Returns:
        ``frequency`` in Hz, the mean over folds, and that of the worst fold; ``lags`` in degrees
        from the combined evidence of all folds; and the planted values.
    """
    planted = default_couplings(len(recordings.channels))[-1]
    label = recordings.classes.index(planted.name)
    centers, evidence = [], []
    windows, rate = standardized(recordings, config).signals, recordings.sampling_rate
    for number, fold in enumerate(folds):
        trained = SignalClassifier.load(folder / FOLDS / folder_name(fold.fold, number))
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
