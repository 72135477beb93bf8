"""The baseline for signals: logistic regression on the log band power of each channel."""

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
_COST = 0.1  # C of the regression; small, as features are about as many as windows of a subject
_LEAST = 1e-12  # smallest power relative to the window, for constant channels


@dataclass(frozen=True)
class BaselinePredictions:
    """Predictions of the baseline in all folds.

    Attributes:
        rows: Indices of the test windows, in ascending order.
        probabilities: Class probabilities ``(rows, classes)``.
        bands: Bands that the length and the sampling rate of the windows allow.
        seconds: Time of training and prediction.
    """

    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    bands: tuple[str, ...]
    seconds: float

    @property
    def description(self) -> str:
        """Return a description in one sentence."""
        return (
            f"Logarithms of each channel's power in the {', '.join(self.bands)} band, by Welch's "
            "method, standardized on the training subjects; logistic regression."
        )


def band_power_baseline(
    recordings: Recordings, folds: Sequence[Fold], standardize: str
) -> BaselinePredictions:
    """Train and test the baseline on the folds of a model.

    The baseline needs no early stopping, so it is trained on the validation subjects, too.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        folds: Folds of the model.
        standardize: Standardization of the windows, as for the model.

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
    if standardize in ("subject", "window"):  # the scaler undoes that by training
        recordings = Standardization(standardize).apply(recordings)
    features, bands = log_band_powers(recordings.signals, recordings.sampling_rate)
    rows, predicted = [], []
    for fold in folds:
        parts = fold.parts(recordings)
        train, test = np.concatenate([parts["train"], parts["valid"]]), parts["test"]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=_COST, max_iter=2000))
        model.fit(features[train], recordings.labels[train])
        rows.append(test)
        predicted.append(model.predict_proba(features[test]))
    numbers, probabilities = np.concatenate(rows), np.concatenate(predicted)
    order = np.argsort(numbers, kind="stable")
    seconds = time.perf_counter() - started
    return BaselinePredictions(numbers[order], probabilities[order], bands, seconds)


def log_band_powers(
    signals: NDArray[np.float32], sampling_rate: float
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return log10 of the mean power density of each channel in each band ``(N, C · bands)``.

    Args:
        signals: ``(N, C, T)``.
        sampling_rate: In Hz.

    Returns:
        The features, and the names of the bands that contain a frequency of the spectrum.

    Raises:
        ArgumentError: If no band does.
    """
    from scipy.signal import welch

    samples = signals.shape[2]
    segment = min(samples, max(2, round(2 * sampling_rate)))  # two seconds resolve 0.5 Hz
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
