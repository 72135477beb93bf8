"""Logarithms of the power and of the cross-spectral matrices of windows, band by band."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, ShapeError

Bands = Sequence[tuple[float, float]]
POWER, MATRIX = VIEWS = ("power", "matrix")
# delta, theta, alpha, beta and low gamma of an electroencephalogram, in Hz
BANDS: Bands = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 45.0))
_AT_ONCE = 512  # windows whose spectra are in memory together
SMALLEST = 1e-12  # of the mean power, or of the largest eigenvalue; silence has a logarithm, too


class SpectralFeature(NamedTuple):
    """The origin of a feature.

    Attributes:
        band: Its lowest and highest frequency in Hz.
        channels: One channel for its log power, two for their coupling.
        part: ``"power"``, ``"in phase"`` or ``"quarter cycle apart"``, the imaginary part.
        view: ``"power"``, or ``"matrix"`` for an entry of the logarithm of the matrix.
    """

    band: tuple[float, float]
    channels: tuple[int, ...]
    part: str
    view: str


@dataclass(frozen=True)
class Spectra:
    """The features of windows before they are standardized.

    Attributes:
        shape: Channels and samples of a window.
        views: The features of each view ``(N, F)``.
    """

    shape: tuple[int, int]
    views: Mapping[str, NDArray[np.float32]]

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def __getitem__(self, rows: Any) -> Spectra:
        return Spectra(self.shape, {name: own[rows] for name, own in self.views.items()})


def read_spectra(
    X: Iterable[Any], sampling_rate: float, bands: Bands, shrinkage: float, views: Sequence[str]
) -> Spectra:
    """Return the features of windows; the arguments are those of `CrossSpectralKernel`.

    Inner products of rows of ``"matrix"`` are those of Frobenius.

    Raises:
        ShapeError: X is not ``(N, C, T)``.
        ArgumentError: The windows have no frequency in any band.
    """
    windows = np.asarray(X if isinstance(X, np.ndarray) else list(X))
    if windows.ndim != 3:
        raise ShapeError("X", windows.shape, "(windows, channels, samples)")
    samples = windows.shape[2]
    known = known_bands(bands, sampling_rate, samples)
    if not known:
        hertz = f"{sampling_rate / samples:g} to {sampling_rate / 2:g} Hz"
        raise ArgumentError("bands", bands, f"a band of the window's frequencies, {hertz}")
    frequencies = np.fft.rfftfreq(samples, 1 / sampling_rate)
    inside = [(frequencies >= low) & (frequencies < high) for low, high in known]
    starts = range(0, max(len(windows), 1), _AT_ONCE)
    parts = [_read_some(windows[i : i + _AT_ONCE], inside, shrinkage, views) for i in starts]
    joined = {view: np.concatenate([part[view] for part in parts]) for view in views}
    return Spectra((windows.shape[1], samples), joined)


def _read_some(
    windows: NDArray[Any],
    inside: Sequence[NDArray[np.bool_]],
    shrinkage: float,
    views: Sequence[str],
) -> dict[str, NDArray[np.float32]]:
    centered = windows - windows.mean(axis=2, keepdims=True, dtype=np.float64)
    spectrum = np.fft.rfft(centered * np.hanning(windows.shape[2]), axis=2)
    total = (spectrum.real**2 + spectrum.imag**2).mean(axis=(1, 2))[:, None]
    least = SMALLEST * total + np.finfo(np.float64).tiny
    parts: dict[str, list[NDArray[np.float64]]] = {view: [] for view in views}
    for frequencies in inside:
        own = spectrum[:, :, frequencies]
        if POWER in parts:
            parts[POWER].append(np.log((own.real**2 + own.imag**2).mean(axis=2) + least))
        if MATRIX in parts:
            S = own @ own.conj().transpose(0, 2, 1) / own.shape[2]
            parts[MATRIX].append(_logarithm(S, shrinkage))
    return {view: np.concatenate(own, axis=1).astype(np.float32) for view, own in parts.items()}


def known_bands(bands: Bands, sampling_rate: float, samples: int) -> list[tuple[float, float]]:
    """Return the bands that have a frequency of the window."""
    frequencies = np.fft.rfftfreq(samples, 1 / sampling_rate)
    return [
        (float(low), float(high))
        for low, high in bands
        if ((frequencies >= low) & (frequencies < high)).any()
    ]


def usual_bands(sampling_rate: float, samples: int) -> Bands:
    """Return the bands of an EEG or, if windows have no frequency in them, five of their own.

    The latter have equal widths on a logarithmic scale, up to half of the sampling rate.
    """
    if known_bands(BANDS, sampling_rate, samples):
        return BANDS
    edges = np.geomspace(sampling_rate / samples * (1 - 1e-9), sampling_rate / 2, 6).tolist()
    return tuple(pairwise(edges))


def features_of(view: str, bands: Bands, channels: int) -> list[SpectralFeature]:
    """Return what each feature of a view is computed from."""
    pairs = list(zip(*(ends.tolist() for ends in np.triu_indices(channels, 1)), strict=True))
    lags = ("in phase", "quarter cycle apart") if view == MATRIX else ()
    result = []
    for band in bands:
        result += [SpectralFeature(band, (c,), "power", view) for c in range(channels)]
        result += [SpectralFeature(band, pair, part, view) for part in lags for pair in pairs]
    return result


def _logarithm(S: NDArray[np.complex128], shrinkage: float) -> NDArray[np.float64]:
    """Return log S of Hermitian matrices ``(N, C, C)`` after shrinkage, as rows ``(N, C²)``."""
    channels = S.shape[1]
    power = np.einsum("ncc->n", S).real / channels
    shrunk = (1 - shrinkage) * S + (shrinkage * power)[:, None, None] * np.eye(channels)
    values, vectors = np.linalg.eigh(shrunk)
    least = np.maximum(values[:, -1:] * SMALLEST, np.finfo(np.float64).tiny)
    logs = np.log(np.maximum(values, least))
    L = (vectors * logs[:, None]) @ vectors.conj().transpose(0, 2, 1)
    coupling = 2**0.5 * L[:, *np.triu_indices(channels, 1)]
    return np.concatenate([np.einsum("ncc->nc", L).real, coupling.real, coupling.imag], axis=1)
