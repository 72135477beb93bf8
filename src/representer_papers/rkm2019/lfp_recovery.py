"""What the models of the synthetic recordings have found: the planted frequency and the lags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings, default_couplings
from representer.explain import band_importance, combined_lags, phase_lags
from representer.tasks.signal.signal_fold import FoldResult, folder_name
from representer.tasks.signal.signal_loso import FOLDS
from representer.tasks.signal.signal_run import load_run


def recovered(of: Recordings, folder: Path, folds: Sequence[FoldResult]) -> dict[str, Any]:
    """Return the frequency and the lags that the models of all folds go by.

    Args:
        of: The recordings, the planted class being the last of ``default_couplings``.
        folder: Of the run.
        folds: Its folds.

    Returns:
        ``frequency`` in Hz, the mean over folds and its worst one; ``lags`` in degrees of the
        evidence of all folds together; and what was planted.
    """
    planted = default_couplings(len(of.channels))[-1]
    label = of.classes.index(planted.name)
    centers, found = [], []
    for number, fold in enumerate(folds):
        trained = load_run(folder / FOLDS / folder_name(fold.fold, number))
        standard = trained.standardization.apply(of)
        signals, labels = torch.from_numpy(standard.signals), torch.from_numpy(of.labels)
        rows = torch.from_numpy(fold.rows)
        importance = band_importance(trained.model, signals[rows], labels[rows], of.sampling_rate)
        centers.append(importance.center)
        # the evidence is asked for at the frequency found, not at the planted one
        at = min(max(importance.center, 3.0), of.sampling_rate / 2 - 3.0)
        found.append(phase_lags(trained.model, signals, label, at, of.sampling_rate))
    lags = combined_lags(found).lags.numpy()
    off = np.degrees(np.angle(np.exp(1j * np.radians(lags - np.asarray(planted.lags)))))
    return {
        "frequency": float(np.mean(centers)),
        "frequency error": float(np.mean(centers) - planted.frequency),
        "worst fold": float(max(centers, key=lambda f: abs(f - planted.frequency))),
        "lags": lags.tolist(),
        "largest lag error": math.fabs(max(off.tolist(), key=abs)),
        "planted": {"frequency": planted.frequency, "lags": list(planted.lags)},
    }
