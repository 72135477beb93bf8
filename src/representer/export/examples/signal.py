"""Classify windows with an exported run: ``python predict.py windows.npz``, with X (N, C, T)."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from representer.export.examples.program import SETUP, arrays_of, machine, network, program, run
from representer.kernels.cross_spectral_kernel import (
    OF_SUBJECTS,
    Recentering,
    read_spectra,
    recentered,
    usual_bands,
)


def standardized(windows):
    """Return windows (N, C, T) as in training."""
    if SETUP["standardize"] == "none":
        return windows.astype(np.float32)
    if SETUP["standardize"] == "training":
        mean, deviation = (np.array(SETUP[name])[:, None] for name in ("mean", "deviation"))
    else:  # over each window, or over all of them, which are those of one subject
        axes = (0, 2) if SETUP["standardize"] == "subject" else 2
        over = {"axis": axes, "keepdims": True, "dtype": np.float64}
        mean, deviation = windows.mean(**over), windows.std(**over)
    is_constant = deviation <= 1e-6 * np.abs(mean)
    scale = np.where(is_constant, 0.0, 1.0 / np.where(is_constant, 1.0, deviation))
    return ((windows - mean) * scale).astype(np.float32)


def of_kernel(k, signal):
    """Return the kernel machine's scores: power and coupling of the channels in each band."""
    setup, arrays, rate = SETUP["kernels"][k], arrays_of(k), SETUP["sampling_rate"]
    if signal.shape[1:] != tuple(arrays["shape"]):
        got, size = signal.shape[1:], tuple(arrays["shape"].tolist())
        raise ValueError(f"X has windows of shape {got}; training had {size}")
    bands = usual_bands(rate, signal.shape[2])
    spectra = read_spectra(signal, rate, bands, setup["shrinkage"], setup["views"])

    if SETUP["recenter"]:  # all windows are those of one subject, whose classes are unknown
        subjects = np.zeros(len(signal), dtype=int)
        moments = spectra.moments_of(subjects, np.ones(len(signal)))
        spectra = replace(spectra, subjects=subjects, moments=moments)
        names = "means", "scales", "coefficients", "intercepts", *OF_SUBJECTS
        subject = Recentering(setup["views"], *(arrays_of(0)[name] for name in names))
        spectra = replace(spectra, moments=subject.moments(spectra))
    features = np.concatenate([spectra.views[name] for name in setup["views"]], 1, dtype=float)
    moved = recentered(features, spectra, setup["views"], arrays["means"], arrays["scales"])
    return machine(k, (moved - arrays["means"]) / arrays["scales"])


def of_network(signal):
    """Return the network's scores of each target."""
    return network({"signal": signal})


predicted, predict = program(
    of_network, of_kernel, lambda windows: standardized(np.asarray(windows, dtype=np.float32))
)


def read(files):
    """Return the windows of .npz files, or of standard input."""
    opened = (io.BytesIO(sys.stdin.buffer.read()) if word == "-" else Path(word) for word in files)
    return list(chain.from_iterable(np.load(file, allow_pickle=False)["X"] for file in opened))


if __name__ == "__main__":
    HELP = "an .npz file with X (N, C, T), or - for standard input"
    run((HELP, "FILE", "Classify windows with an exported run."), read, predicted)
