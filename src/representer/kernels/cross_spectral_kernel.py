"""A kernel of windows of multichannel signals: the logarithms of their cross-spectral matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, ShapeError
from representer.kernels.kernel import StandardizedKernel, value_of

# Logarithms of the power and of the cross-spectral matrices of windows, band by band.

Bands = Sequence[tuple[float, float]]
POWER, MATRIX = VIEWS = ("power", "matrix")
# delta, theta, alpha, beta and low gamma of an electroencephalogram, in Hz
BANDS: Bands = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 45.0))
_AT_ONCE = 512  # windows whose spectra are in memory together
SHRINKAGE = 5  # windows that the common mean and deviation count for beside those of a subject
LEAST_SHARE = 0.05  # of a class among the windows of a subject that counts
SMALLEST = 1e-12  # of the mean power, or of the largest eigenvalue; silence has a logarithm, too


Moments = tuple[float, Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]]


class SpectralFeature(NamedTuple):
    """The origin of a feature."""

    band: tuple[float, float]  # its lowest and highest frequency in Hz
    channels: tuple[int, ...]  # one channel for its log power, two for their coupling
    part: str  # ``"power"``, ``"in phase"`` or ``"quarter cycle apart"``, the imaginary part
    view: str  # ``"power"``, or ``"matrix"`` for an entry of the logarithm of the matrix


@dataclass(frozen=True)
class Spectra:
    """The features of windows before they are standardized."""

    shape: tuple[int, int]  # channels and samples of a window
    views: Mapping[str, NDArray[np.float32]]  # the features of each view ``(N, F)``
    # the subject of each window ``(N,)``, by whose moments it is standardized; None for the
    # moments of the windows that the kernel was fitted to
    subjects: NDArray[Any] | None = None
    # of each subject, see `moments_of`
    moments: Mapping[str, Moments] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def __getitem__(self, rows: Any) -> Spectra:
        views = {name: view[rows] for name, view in self.views.items()}
        subjects = None if self.subjects is None else self.subjects[rows]
        return Spectra(self.shape, views, subjects, self.moments)

    def moments_of(
        self, subjects: NDArray[Any], weights: NDArray[np.float64]
    ) -> dict[str, Moments]:
        """Return the effective number of windows of each subject, and their mean and variance."""
        moments: dict[str, Moments] = {}
        for subject in np.unique(subjects):
            rows = subjects == subject
            share = weights[rows] / weights[rows].sum()
            parts = {}
            for name, view in self.views.items():
                mean = share @ view[rows]
                parts[name] = mean, share @ (view[rows] - mean) ** 2
            moments[subject] = float(1 / (share**2).sum()), parts
        return moments


def read_spectra(
    X: Iterable[Any], sampling_rate: float, bands: Bands, shrinkage: float, views: Sequence[str]
) -> Spectra:
    """Return the features of windows; the arguments are those of `CrossSpectralKernel`.

    Inner products of rows of ``"matrix"`` are those of Frobenius.
    """
    windows = np.asarray(X if isinstance(X, np.ndarray) else list(X))
    if windows.ndim != 3:
        raise ShapeError("X", windows.shape, "(windows, channels, samples)")
    samples = windows.shape[2]
    usable = known_bands(bands, sampling_rate, samples)
    if not usable:
        hertz = f"{sampling_rate / samples:g} to {sampling_rate / 2:g} Hz"
        raise ArgumentError("bands", bands, f"a band of the window's frequencies, {hertz}")
    frequencies = np.fft.rfftfreq(samples, 1 / sampling_rate)
    inside = [(frequencies >= low) & (frequencies < high) for low, high in usable]
    starts = range(0, max(len(windows), 1), _AT_ONCE)
    parts = [_read_some(windows[i : i + _AT_ONCE], inside, shrinkage, views) for i in starts]
    joined = {view: np.concatenate([chunk[view] for chunk in parts]) for view in views}
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
        band = spectrum[:, :, frequencies]
        if POWER in parts:
            parts[POWER].append(np.log((band.real**2 + band.imag**2).mean(axis=2) + least))
        if MATRIX in parts:
            S = band @ band.conj().transpose(0, 2, 1) / band.shape[2]
            parts[MATRIX].append(_logarithm(S, shrinkage))
    return {view: np.concatenate(x, axis=1).astype(np.float32) for view, x in parts.items()}


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
        result += [SpectralFeature(band, pair, lag, view) for lag in lags for pair in pairs]
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


def recentered(
    features: NDArray[np.float64], spectra: Spectra, views: Sequence[str],
    means: NDArray[np.float64], scales: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return features, moved and scaled in place from each subject's moments to the common ones.

    The moments of a subject are shrunk towards the common ones, which those of few windows say
    little about. Without subjects, the features stay. ``scales`` are the common deviations, times
    the square root of the number of features of all views.
    """
    if spectra.subjects is None:
        return features
    widths = [spectra.views[view].shape[1] for view in views]
    common = scales / np.repeat([(width * len(views)) ** 0.5 for width in widths], widths)
    for subject in np.unique(spectra.subjects):
        count, parts = spectra.moments[subject]
        mean, variance = (np.concatenate([parts[view][k] for view in views]) for k in range(2))
        share = count / (count + SHRINKAGE)
        center = share * mean + (1 - share) * means
        spread = (share * variance + (1 - share) * common**2) ** 0.5
        rows = spectra.subjects == subject
        features[rows] = means + (features[rows] - center) * (common / spread)
    return features


def class_balanced(scores: NDArray[np.float64], subjects: NDArray[Any]) -> NDArray[np.float64]:
    """Return weights of windows ``(N,)`` with which the classes of each subject weigh the same.

    The ``scores`` ``(N, C)`` are all that is known of the classes.
    """
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    weights = np.empty(len(chances))
    for subject in np.unique(subjects):
        rates = chances[rows := subjects == subject]
        weights[rows] = (rates / np.maximum(rates.mean(axis=0), LEAST_SHARE)).sum(axis=1)
    return weights


class CrossSpectralKernel(StandardizedKernel):
    r"""Compares the power of all channels and the coupling of all pairs, band by band.

    It is the mean of two kernels, whose features `fit` standardizes:

    .. math::
        K_1(x, y) = \sum_{b,c} \log S_b(x)_{cc} \log S_b(y)_{cc}, \qquad
        K_2(x, y) = \sum_b \langle \log S_b(x), \log S_b(y) \rangle_F, \qquad
        S_b(x)_{cd} = \sum_{f \in b} \hat x_c(f)\, \overline{\hat x_d(f)}

    K_1 takes the logarithm of each channel's power, K_2 that of the Hermitian matrix. A lag between
    two channels is the phase of an entry, which the wavelet filters of L19 section 6 (SyncNet)
    learn. In K_2, S is shrunk towards a multiple of the identity. Windows with `Spectra.subjects`
    are moved and scaled to the common moments by those of their subject, whatever their classes.

    Args:
        sampling_rate: Samples per second.
        bands: Lowest and highest frequency of each band in Hz; those without a frequency of the
            window are left out. None: the bands of an EEG or, where windows have no frequency in
            them, five up to half of the sampling rate.
        shrinkage: Weight of the identity, in (0, 1].
        views: ``"power"`` for K_1, ``"matrix"`` for K_2.

    Shape:
        - X, Y: ``(N, C, T)``, ``(M, C, T)``, or what `read` returned for them
        - returns ``(N, M)``

    References:
        Arsigny et al., Geometric Means in a Novel Vector Space Structure on Symmetric
        Positive-Definite Matrices, SIAM J. Matrix Anal. Appl. 2007 (the log-Euclidean metric).
    """

    def __init__(
        self,
        sampling_rate: float = 250.0,
        bands: Bands | None = None,
        shrinkage: float = 0.05,
        views: Sequence[str] = VIEWS,
    ) -> None:
        self.sampling_rate = sampling_rate
        self.bands = bands
        self.shrinkage = shrinkage
        self.views = views
        self._check()

    def no_network(self) -> str:
        return "Its features of spectra are arrays, without derivatives in a window."

    def read(self, X: Iterable[Any]) -> Spectra:
        """Return the features of windows before they are standardized.

        `fit`, `transform` and the kernel itself take them in place of the windows.
        """
        self._check()
        windows = X if isinstance(X, np.ndarray) else list(X)
        bands = self._bands(np.shape(windows)[-1])
        return read_spectra(windows, self.sampling_rate, bands, self.shrinkage, self.views)

    def fit(self, X: Any, targets: NDArray[np.float64] | None = None) -> Self:
        spectra = self._features(X)
        self.shape_ = spectra.shape
        means, scales = [], []
        for view in self.views:
            features = spectra.views[view]
            deviations = features.std(axis=0, dtype=np.float64)
            means.append(features.mean(axis=0, dtype=np.float64))
            size = (features.shape[1] * len(self.views)) ** 0.5
            scales.append(np.where(deviations > 0, deviations, 1.0) * size)
        self.means_, self.scales_ = np.concatenate(means), np.concatenate(scales)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        spectra = self._features(X)
        if spectra.shape != self.shape_:
            got = (len(spectra), *spectra.shape)
            raise ShapeError("X", got, f"(N, {self.shape_[0]}, {self.shape_[1]})")
        views = [spectra.views[view] for view in self.views]
        features = np.concatenate(views, axis=1, dtype=np.float64)
        return self._standardized(
            recentered(features, spectra, self.views, self.means_, self.scales_)
        )

    def features(self) -> list[SpectralFeature]:
        """Return what each feature is computed from."""
        channels, samples = self.shape_
        bands = known_bands(self._bands(samples), self.sampling_rate, samples)
        return [feature for view in self.views for feature in features_of(view, bands, channels)]

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        shape = np.asarray(self.shape_, np.int64)
        arrays = {"shape": shape, "means": self.means_, "scales": self.scales_}
        return {"views": list(self.views)}, arrays

    def restore(
        self, tokens: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Set the views and what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        self.views = tuple(tokens["views"])
        self._check()
        shape = tuple(arrays["shape"].tolist())
        if len(shape) != 2 or not (0 < shape[0] <= 4096 and 1 < shape[1] <= 2**24):
            raise ValueError(f"the shape of a window is {shape}")
        self.shape_ = shape
        count = len(known_bands(self._bands(shape[1]), self.sampling_rate, shape[1]))
        sizes = {"power": shape[0], "matrix": shape[0] ** 2}
        width = count * sum(sizes[view] for view in self.views)
        return self._set_moments(arrays, width)

    def _bands(self, samples: int) -> Bands:
        return usual_bands(self.sampling_rate, samples) if self.bands is None else self.bands

    def _check(self) -> None:
        if not 0 < value_of(self.sampling_rate) < float("inf"):
            raise ArgumentError("sampling_rate", self.sampling_rate, "a positive number of Hz")
        if not 0 < value_of(self.shrinkage) <= 1:
            raise ArgumentError("shrinkage", self.shrinkage, "a number in (0, 1]")
        self._check_views(VIEWS)
        for band in self.bands or ():
            if np.shape(band) != (2,) or not 0 <= band[0] < band[1]:
                raise ArgumentError("bands", self.bands, "pairs of a lower and a higher frequency")
