"""The baseline of signals: log band power of each channel through logistic regression."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from representer.data.signals import Recordings, Standardization
from representer.errors import ArgumentError, MissingExtraError
from representer.tasks.signal.signal_folds import Fold

BANDS = {
    "delta": (1.0, 4.0), "theta": (4.0, 8.0), "alpha": (8.0, 13.0), "beta": (13.0, 30.0),
    "gamma": (30.0, 45.0),
}  # fmt: skip
NAME = "log band power + logistic regression"
_COST = 0.1  # C of the regression: there are as many features as a subject has windows
_LEAST = 1e-12  # of a power, as a part of the window's, where a channel is constant


@dataclass(frozen=True)
class BaselineAnswers:
    """What the baseline answered in all folds.

    Attributes:
        rows: The numbers of the windows that were tested, in rising order.
        probabilities: ``(rows, classes)``.
        bands: Those that the windows are long enough and fast enough for.
        seconds: Of training and answering.
    """

    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    bands: tuple[str, ...]
    seconds: float

    @property
    def description(self) -> str:
        """What it is, in a sentence."""
        return (
            f"Logarithms of each channel's power in the {', '.join(self.bands)} band, by Welch's "
            "method, standardized on the training subjects; logistic regression."
        )


def band_power_baseline(of: Recordings, folds: Sequence[Fold], standardize: str) -> BaselineAnswers:
    """Train and test the baseline on the folds of a model.

    It has no use for subjects that say when to stop, so these train it too.

    Args:
        of: The recordings: resampled and cut, not standardized.
        folds: Of the model.
        standardize: By what a window gets mean 0 and deviation 1, as a model's windows may.

    Raises:
        ArgumentError: If the windows are too short, or the rate too low, for any band.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise MissingExtraError("the baseline of band powers", "scikit-learn", "train") from error
    started = time.perf_counter()
    if standardize in ("subject", "window"):  # that by training is undone by the scaler
        of = Standardization(standardize).apply(of)
    features, bands = log_band_powers(of.signals, of.sampling_rate)
    rows, found = [], []
    for fold in folds:
        parts = fold.parts(of)
        train, test = np.concatenate([parts["train"], parts["valid"]]), parts["test"]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=_COST, max_iter=2000))
        model.fit(features[train], of.labels[train])
        rows.append(test)
        found.append(model.predict_proba(features[test]))
    numbers, probabilities = np.concatenate(rows), np.concatenate(found)
    order = np.argsort(numbers, kind="stable")
    seconds = time.perf_counter() - started
    return BaselineAnswers(numbers[order], probabilities[order], bands, seconds)


def log_band_powers(
    signals: NDArray[np.float32], sampling_rate: float
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return log10 of the mean power density of each channel in each band ``(N, C · bands)``.

    Args:
        signals: ``(N, C, T)``.
        sampling_rate: In Hz.

    Returns:
        The features, and the names of the bands that have a frequency of the spectrum in them.

    Raises:
        ArgumentError: If no band has.
    """
    from scipy.signal import welch

    samples = signals.shape[2]
    segment = min(samples, max(2, round(2 * sampling_rate)))  # two seconds tell 1 Hz from 1.5 Hz
    frequencies, density = welch(signals, sampling_rate, nperseg=segment, axis=2)
    least = _LEAST * density.mean(axis=(1, 2))[:, None] + np.finfo(np.float32).tiny
    columns, names = [], []
    for name, (low, high) in BANDS.items():
        inside = (frequencies >= low) & (frequencies < high)
        if inside.any():
            columns.append(np.log10(density[:, :, inside].mean(axis=2) + least))
            names.append(name)
    if not names:
        got = f"windows of {samples / sampling_rate:g} s at {sampling_rate:g} Hz"
        raise ArgumentError("signals", got, "windows with a frequency from 1 to 45 Hz")
    return np.concatenate(columns, axis=1).astype(np.float64), tuple(names)
