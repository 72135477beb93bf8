"""What the models of a signal run go by: wavelets, those that came back, bands and lags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from representer.data.signals import Recordings
from representer.explain import (
    WaveletCard,
    band_importance,
    combined_lags,
    phase_lags,
    recurring_oscillations,
    wavelet_cards,
)
from representer.tasks.signal.signal_fold import FoldResult, folder_name
from representer.tasks.signal.signal_loso import FOLDS
from representer.tasks.signal.signal_run import TrainedSignal, load_run

SHOWN = 6  # wavelets of the final model
WINDOWS = 100  # of a fold that are asked about, at most
HIGHEST = 50.0  # Hz


def describe_filters(
    of: Recordings, folder: Path, folds: Sequence[FoldResult], *, is_wavelet: bool
) -> dict[str, Any]:
    """Return what a report shows of filters; it is written into details.json.

    Args:
        of: The recordings, not standardized.
        folder: Of the run, whose final model is trained.
        folds: Its folds.
        is_wavelet: Whether its filters are wavelets.

    Returns:
        ``cards`` of the final model's strongest wavelets, ``recurring`` oscillations of the folds'
        models, both empty without wavelets; ``importance`` of bands and ``lags`` of each class, of
        what the folds' models go by, empty where windows are too short for it.
    """
    trained = [load_run(folder / FOLDS / folder_name(f.fold, k)) for k, f in enumerate(folds)]
    found: dict[str, Any] = {"channels": list(of.channels), "cards": [], "recurring": []}
    if is_wavelet:
        found["cards"] = [
            _card(card) for card in wavelet_cards(load_run(folder).model.cell)[:SHOWN]
        ]
        every = [wavelet_cards(one.model.cell) for one in trained]
        found["recurring"] = [vars(row) for row in recurring_oscillations(every)][:SHOWN]
    return found | _oscillations(of, folds, trained)


def _card(card: WaveletCard) -> dict[str, Any]:
    return {
        name: value.round(6).tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(card).items()
    }


def _oscillations(
    of: Recordings, folds: Sequence[FoldResult], trained: Sequence[TrainedSignal]
) -> dict[str, Any]:
    width = max(1.0, 1.0 / of.seconds)
    if of.sampling_rate < 8 * width or of.seconds * of.sampling_rate < 8:
        return {"importance": None, "lags": []}
    asked = [_windows(of, fold, one) for fold, one in zip(folds, trained, strict=True)]
    highest = min(HIGHEST, of.sampling_rate / 2)
    bands = [
        band_importance(one.model, *windows, of.sampling_rate, width=width, highest=highest)
        for one, windows in zip(trained, asked, strict=True)
    ]
    mean = bands[0]._replace(loss=torch.stack([one.loss for one in bands]).mean(0))
    best = float(mean.frequencies[mean.loss.argmax()])
    wide = min(4 * width, of.sampling_rate / 2 - width)
    lags = [
        combined_lags(
            [
                phase_lags(one.model, signals, label, best, of.sampling_rate, width=wide)
                for one, (signals, _) in zip(trained, asked, strict=True)
            ]
        )
        for label in range(len(of.classes))
    ]
    return {
        "importance": {
            "frequencies": mean.frequencies.tolist(),
            "loss": mean.loss.tolist(),
            "best": best,
            "center": mean.center,
        },
        "lags": [
            {"class": name, "lags": found.lags.tolist(), "weights": found.weights.tolist()}
            for name, found in zip(of.classes, lags, strict=True)
        ],
    }


def _windows(
    of: Recordings, fold: FoldResult, one: TrainedSignal
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tested windows of a fold, standardized, evenly spread; at most `WINDOWS`."""
    whole = one.standardization.apply(of.take(fold.rows))  # of all windows of its subjects
    rows = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), WINDOWS)).round().astype(int))
    return torch.from_numpy(whole.signals[rows]), torch.from_numpy(whole.labels[rows])
