"""Explain the models of a signal run: wavelets, common oscillations, bands and phase lags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings
from representer.estimators import SignalClassifier
from representer.explain import (
    band_importance,
    combined_lags,
    phase_lags,
    recurring_oscillations,
    wavelet_cards,
)
from representer.tasks.results import FoldResult

SHOWN = 6  # wavelets to show
WINDOWS = 100  # maximum number of test windows per fold
HIGHEST = 50.0  # Hz


def describe_filters(
    recordings: Recordings,
    folds: Sequence[FoldResult],
    trained: Sequence[SignalClassifier],
    final: SignalClassifier,
) -> dict[str, Any]:
    """Return the description of the filters for details.json and the report.

    Args:
        recordings: Recordings as the estimators take them.
        folds: Results of the folds.
        trained: Their models.
        final: The model of all subjects.

    Returns:
        ``cards`` of the strongest wavelets of the final model and ``recurring`` oscillations of the
        models of the folds, both empty without wavelets; ``importance`` of bands and ``lags`` of
        each class for the models of the folds, empty if windows are too short.
    """
    described: dict[str, Any] = {"cards": [], "recurring": []}
    if final.filters == "wavelet":
        cards, *every = (wavelet_cards(one.network_.cell) for one in (final, *trained))
        described["cards"] = [
            {k: v.round(6).tolist() if isinstance(v, np.ndarray) else v for k, v in vars(c).items()}
            for c in cards[:SHOWN]
        ]
        described["recurring"] = [vars(row) for row in recurring_oscillations(every)][:SHOWN]
    described["channels"] = list(recordings.channels)
    return described | _oscillations(recordings, folds, trained)


def _oscillations(
    recordings: Recordings, folds: Sequence[FoldResult], trained: Sequence[SignalClassifier]
) -> dict[str, Any]:
    width = max(1.0, 1.0 / recordings.seconds)
    if recordings.sampling_rate < 8 * width or recordings.seconds * recordings.sampling_rate < 8:
        return {"importance": None, "lags": []}
    tested = [_windows(recordings, fold, one) for fold, one in zip(folds, trained, strict=True)]
    highest = min(HIGHEST, recordings.sampling_rate / 2)
    networks, rate = [one.network_ for one in trained], recordings.sampling_rate
    bands = [
        band_importance(network, *windows, rate, width=width, highest=highest)
        for network, windows in zip(networks, tested, strict=True)
    ]
    mean = bands[0]._replace(loss=torch.stack([one.loss for one in bands]).mean(0))
    best = float(mean.frequencies[mean.loss.argmax()])
    wide = min(4 * width, rate / 2 - width)
    lags = []
    for label, name in enumerate(recordings.classes):
        combined = combined_lags(
            [
                phase_lags(network, signals, label, best, rate, width=wide)
                for network, (signals, _) in zip(networks, tested, strict=True)
            ]
        )
        own = {"lags": combined.lags.tolist(), "weights": combined.weights.tolist()}
        lags.append({"class": name} | own)
    return {
        "importance": {
            "frequencies": mean.frequencies.tolist(),
            "loss": mean.loss.tolist(),
            "best": best,
            "center": mean.center,
        },
        "lags": lags,
    }


def _windows(
    recordings: Recordings, fold: FoldResult, one: SignalClassifier
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return up to `WINDOWS` standardized test windows of a fold, evenly spread."""
    count = len(fold.rows)
    places = np.linspace(0, count - 1, min(count, WINDOWS)).round().astype(int)
    tested = recordings.take(fold.rows[np.unique(places)])
    (signals,) = one.inputs_.collate(one.inputs_.encode(tested.signals))
    return signals, torch.from_numpy(tested.labels)
