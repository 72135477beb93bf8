"""Baselines for signals: logistic regression on the spectra of the windows, and chance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data.signals import Recordings, Standardization
from representer.kernels.cross_spectral_kernel import MATRIX, POWER, CrossSpectralKernel
from representer.tasks.objects import Fold
from representer.tasks.results import Baseline, joined, majority_class

_COST = 0.1  # C with one feature per channel and band, about as many as windows of a subject
_KINDS = {
    POWER: ("log band power", "Logarithms of each channel's power"),
    MATRIX: (
        "cross-spectral matrices",
        "Logarithms of the cross-spectral matrices of all channels",
    ),
}
VIEWS = {"none": (), "simple": (POWER,), "all": (POWER, MATRIX)}  # by --baselines


def spectral_baselines(
    recordings: Recordings, folds: Sequence[Fold], config: Any
) -> list[Baseline]:
    """Train and test the baselines of a `SignalConfig`; see `spectral_baseline`."""
    scheme = "none" if config.standardize == "subject" else config.standardize
    rows = [spectral_baseline(recordings, folds, scheme, view) for view in VIEWS[config.baselines]]
    return [*rows, most_common(recordings, folds)] if rows else []


def most_common(recordings: Recordings, folds: Sequence[Fold]) -> Baseline:
    """Predict the most frequent class of the training subjects of each fold."""
    started, predicted, one_hot = time.perf_counter(), [], np.eye(len(recordings.classes))
    for fold in folds:
        parts = fold.parts(recordings.subjects)
        train = recordings.labels[np.concatenate([parts["train"], parts["valid"]])]
        guess = majority_class(train.tolist(), len(parts["test"]))
        predicted.append((parts["test"], one_hot[guess.predictions]))
    classes = joined(predicted)[1].argmax(axis=1)
    description = "Always the commonest class of the training subjects."
    return Baseline("majority class", description, classes, time.perf_counter() - started)


def spectral_baseline(
    recordings: Recordings, folds: Sequence[Fold], standardize: str, view: str = POWER
) -> Baseline:
    """Train and test a baseline on the folds of a model; predict their test windows, in order.

    The baseline needs no early stopping, so it is trained on the validation subjects, too.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        folds: Folds of the model.
        standardize: Standardization of the windows, as for the model.
        view: Of `CrossSpectralKernel`: log band power, or logarithms of cross-spectral matrices.
    """
    started = time.perf_counter()
    if standardize in ("subject", "window"):  # the scaler undoes that by training
        recordings = Standardization(standardize).apply(recordings)
    kernel = CrossSpectralKernel(recordings.sampling_rate, views=(view,))
    spectra = kernel.read(recordings.signals)
    features = spectra.views[view].astype(np.float64)
    bands = list(dict.fromkeys(feature.band for feature in kernel.fit(spectra).features()))
    cost = _COST * len(bands) * spectra.shape[0] / features.shape[1]
    predicted = []
    for fold in folds:
        parts = fold.parts(recordings.subjects)
        train, test = np.concatenate([parts["train"], parts["valid"]]), parts["test"]
        # a rotation changes nothing, and leaves at most as many features as windows
        model = make_pipeline(StandardScaler(), PCA(), LogisticRegression(C=cost, max_iter=2000))
        model.fit(features[train], recordings.labels[train])
        predicted.append((test, model.predict_proba(features[test])))
    name, what = _KINDS[view]
    hertz = ", ".join(f"{low:.3g} to {high:.3g}" for low, high in bands)
    description = f"{what} in bands of {hertz} Hz, standardized on the training subjects; "
    _, chances = joined(predicted)
    return Baseline(
        f"{name} + logistic regression", description + "logistic regression.",
        chances.argmax(axis=1), time.perf_counter() - started, [chances],
    )  # fmt: skip
