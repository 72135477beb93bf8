"""A kernel of windows of multichannel signals: the logarithms of their cross-spectral matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, ShapeError
from representer.kernels.convolution_kernel import spans
from representer.kernels.kernel import StandardizedKernel, value_of

# Logarithms of the power and of the cross-spectral matrices of windows, band by band.

Bands = Sequence[tuple[float, float]]
POWER, MATRIX = VIEWS = ("power", "matrix")
WAVEFORM = "waveform"
TIMES = 32  # of a waveform, at most
# delta, theta, alpha, beta and low gamma of an electroencephalogram, in Hz
BANDS: Bands = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 45.0))
_AT_ONCE = 512  # windows whose spectra are in memory together
SHRINKAGE = 5  # windows that the common mean and deviation count for beside those of a subject
# Chosen on two EEGs, balanced and with nine windows of a class to one, see benchmarks/eeg.py.
EVIDENCE = 0.3  # of a window beside an independent one; those of a recording resemble each other
SHARES = 2.5  # of the Dirichlet distribution of the shares of a subject's classes
LEAST_SLOPE = 0.5  # of the log odds of classes in their scores
SUBJECTS = 5  # whose offsets are taken to vary as scores within a subject, beside those known
ROUNDS = 30  # of finding the offset and the shares of a subject
SMALLEST = 1e-12  # of the mean power, or of the largest eigenvalue; silence has a logarithm, too


# what `Recentering` knows of scores
OF_SUBJECTS = ("class_scores", "within", "between")
Moments = tuple[float, Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]]


class SpectralFeature(NamedTuple):
    """The origin of a feature."""

    band: tuple[float, float]  # its lowest and highest frequency in Hz; seconds of a waveform
    channels: tuple[int, ...]  # one channel for its log power, two for their coupling
    # ``"power"``, ``"in phase"`` or ``"quarter cycle apart"``, the imaginary part; ``"mean"``
    part: str
    view: str  # ``"power"``, ``"matrix"`` for an entry of the logarithm of it, or ``"waveform"``

    @property
    def name(self) -> str:
        """The band in Hz, or the time in seconds."""
        low, high = self.band
        if self.view == WAVEFORM:
            return f"waveform, {low:.3f} to {high:.3f} s"
        return f"{low:.3g} to {high:.3g} Hz"


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
    windows: NDArray[Any], inside: Sequence[NDArray[np.bool_]], shrinkage: float,
    views: Sequence[str],
) -> dict[str, NDArray[np.float32]]:  # fmt: skip
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
    if WAVEFORM in parts:
        count, channels, samples = windows.shape
        means = spans(centered.reshape(-1, samples), min(samples, TIMES))
        parts[WAVEFORM].append(means.reshape(count, channels * means.shape[1]))
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


def features_of(
    view: str, bands: Bands, shape: tuple[int, int], sampling_rate: float
) -> list[SpectralFeature]:
    """Return what each feature of a view is computed from; ``shape`` is that of a window."""
    channels, samples = shape
    if view == WAVEFORM:
        ends = np.linspace(0, samples / sampling_rate, min(samples, TIMES) + 1).tolist()
        times = [*pairwise(ends)]
        return [SpectralFeature(t, (c,), "mean", view) for c in range(channels) for t in times]
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
    deviations = common_deviations(spectra, views, scales)
    for subject in np.unique(spectra.subjects):
        share, mean, spread = _shrunk(spectra.moments[subject], views, deviations)
        center = share * mean + (1 - share) * means
        rows = spectra.subjects == subject
        features[rows] = means + (features[rows] - center) * (deviations / spread)
    return features


def common_deviations(
    spectra: Spectra, views: Sequence[str], scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the deviations of features over all windows, from `recentered`'s scales."""
    widths = [spectra.views[view].shape[1] for view in views]
    return scales / np.repeat([(width * len(views)) ** 0.5 for width in widths], widths)


def _shrunk(
    moments: Moments, views: Sequence[str], deviations: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of a subject's own moments, its mean, and its shrunk deviations."""
    count, parts = moments
    mean, variance = (np.concatenate([parts[view][k] for view in views]) for k in range(2))
    share = count / (count + SHRINKAGE)
    return share, mean, (share * variance + (1 - share) * deviations**2) ** 0.5


@dataclass(frozen=True)
class Recentering:
    r"""Finds the mean of a subject whose classes are unknown, from scores that are a mixture.

    The scores of a window of class k at the common mean are those of a Gaussian,

    .. math:: s = o + m_k + e, \qquad o \sim N(0, B), \quad e \sim N(0, W), \quad
        \pi \sim \mathrm{Dirichlet}(2.5, \dots, 2.5)

    with the offset o and the shares :math:`\pi` of the classes of the subject. A mean of its
    windows alone would be that of their commonest class. The offset and the shares are found in
    turn, from no offset and from that of equal shares; a window counts as 0.3 of an independent
    one. The center is where the scores have no offset, and the odds of the classes are those of
    their shares, by the slope of a linear discriminant in the scores.

    References:
        Saerens et al., Adjusting the Outputs of a Classifier to New a Priori Probabilities, Neural
        Computation 2002 (the shares).
    """

    views: Sequence[str]  # of the features
    means: NDArray[np.float64]  # common means ``(F,)``
    scales: NDArray[np.float64]  # as in `recentered`
    coefficients: NDArray[np.float64]  # ``(C, F)``, from features to scores
    intercepts: NDArray[np.float64]  # ``(C,)``
    # m: mean scores of each class, at the mean of each subject ``(C, C)``
    class_scores: NDArray[np.float64]
    within: NDArray[np.float64]  # w ``(C, C)``
    between: NDArray[np.float64]  # b ``(C, C)``

    def learned_between(self, spectra: Spectra) -> NDArray[np.float64]:
        """Return B from the means of the subjects that were trained on, of known classes.

        If they are few, it is taken to be as large as W.
        """
        deviations, total = self._deviations(spectra), SUBJECTS * self.within
        names = np.unique(np.asarray(spectra.subjects))
        for subject in names:
            _, mean, spread = _shrunk(spectra.moments[subject], self.views, deviations)
            units = spread * self._roots(spectra)
            shift = self.coefficients @ ((mean - self.means) / units)
            total = total + np.outer(shift, shift)
        return total / (len(names) + SUBJECTS)

    def moments(self, spectra: Spectra) -> dict[str, Moments]:
        """Return moments of the subjects of spectra, of which only the means are moved."""
        result, deviations = dict(spectra.moments), self._deviations(spectra)
        assert spectra.subjects is not None
        features = np.concatenate([spectra.views[v] for v in self.views], axis=1, dtype=np.float64)
        widths = [spectra.views[view].shape[1] for view in self.views]
        for subject in np.unique(spectra.subjects):
            count, parts = spectra.moments[subject]
            share, mean, spread = _shrunk((count, parts), self.views, deviations)
            units = spread * self._roots(spectra)
            at_common = (features[spectra.subjects == subject] - self.means) / units
            wanted = self._offset(at_common @ self.coefficients.T + self.intercepts)
            moved = share * (mean - self.means) / units
            slopes = self.coefficients - self.coefficients.mean(0)
            moved += np.linalg.pinv(slopes) @ (wanted - slopes @ moved)
            pieces = np.split(self.means + moved * units / share, np.cumsum(widths)[:-1])
            moved_parts = {
                v: (piece, parts[v][1]) for v, piece in zip(self.views, pieces, strict=True)
            }
            result[subject] = count, {**parts, **moved_parts}
        return result

    def _offset(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what to take from the scores of the windows of a subject ``(N, C)``: ``(C,)``."""
        classes = scores.shape[1]
        basis = np.linalg.qr(np.eye(classes) - 1 / classes)[0][:, : classes - 1]
        s, m = scores @ basis, self.class_scores @ basis
        within, between = (
            basis.T @ covariance @ basis for covariance in (self.within, self.between)
        )
        noise = np.linalg.inv(within)
        prior = np.linalg.inv(between + SMALLEST * np.trace(within) * np.eye(classes - 1))
        count, best, chosen = EVIDENCE * len(s), -np.inf, (np.zeros(0), np.zeros(0))
        for offset in (np.zeros(classes - 1), s.mean(0) - m.mean(0)):
            shares = np.full(classes, 1 / classes)
            for _ in range(ROUNDS):
                away = s[:, None] - offset - m
                logs = np.log(shares) - 0.5 * np.einsum("nki,ij,nkj->nk", away, noise, away)
                top = logs.max(axis=1, keepdims=True)
                chances = np.exp(logs - top)
                total = chances.sum(axis=1, keepdims=True)
                chances /= total
                posterior = (
                    EVIDENCE * (top + np.log(total)).sum()
                    - 0.5 * offset @ prior @ offset
                    + (SHARES - 1) * np.log(shares).sum()
                )
                if posterior > best:
                    best, chosen = posterior, (offset, shares)
                shares = EVIDENCE * chances.sum(0) + SHARES - 1
                shares /= shares.sum()
                pull = noise @ (EVIDENCE * (s - chances @ m).sum(0))
                offset = np.linalg.solve(prior + count * noise, pull)
        offset, shares = chosen
        spread = within + np.cov(m.T, bias=True)
        slope = np.trace(basis.T @ (m - m.mean(0)) @ noise @ spread) / np.trace(spread)
        odds = np.log(shares) - np.log(shares).mean()
        return basis @ offset - odds / max(slope, LEAST_SLOPE)

    def _deviations(self, spectra: Spectra) -> NDArray[np.float64]:
        return common_deviations(spectra, self.views, self.scales)

    def _roots(self, spectra: Spectra) -> NDArray[np.float64]:
        return self.scales / self._deviations(spectra)


def class_covariances(
    scores: NDArray[np.float64], values: NDArray[Any], subjects: NDArray[Any],
    intercepts: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return the mean scores of each class, and their covariance within classes and subjects."""
    away, classes = scores.copy(), scores.shape[1]
    for subject in np.unique(subjects):  # whose classes weigh the same
        rows = subjects == subject
        means = [scores[rows & (values == label)].mean(0) for label in np.unique(values[rows])]
        away[rows] -= np.mean(means, axis=0)
    centers = np.zeros((classes, classes))
    for label in np.unique(values):
        centers[label] = away[values == label].mean(0)
    away -= centers[values]
    return centers + intercepts, away.T @ away / len(away) + 1e-6 * np.eye(classes)


class CrossSpectralKernel(StandardizedKernel):
    r"""Compares the power of all channels and the coupling of all pairs, band by band.

    It is the mean of two kernels, whose features `fit` standardizes, or of those chosen of three:

    .. math::
        K_1(x, y) = \sum_{b,c} \log S_b(x)_{cc} \log S_b(y)_{cc}, \qquad
        K_2(x, y) = \sum_b \langle \log S_b(x), \log S_b(y) \rangle_F, \qquad
        S_b(x)_{cd} = \sum_{f \in b} \hat x_c(f)\, \overline{\hat x_d(f)}, \qquad
        K_3(x, y) = \sum_{c,t} \bar x_c(t)\, \bar y_c(t)

    K_1 takes the logarithm of each channel's power, K_2 that of the Hermitian matrix. A lag between
    two channels is the phase of an entry, which the wavelet filters of L19 section 6 (SyncNet)
    learn. In K_2, S is shrunk towards a multiple of the identity. K_3 compares the means of the
    signal in up to 32 equal spans of the window: what an event evokes at a time. Windows with
    `Spectra.subjects` are moved and scaled to the common moments by those of their subject,
    whatever their classes.

    Args:
        sampling_rate: Samples per second.
        bands: Lowest and highest frequency of each band in Hz; those without a frequency of the
            window are left out. None: the bands of an EEG or, where windows have no frequency in
            them, five up to half of the sampling rate.
        shrinkage: Weight of the identity, in (0, 1].
        views: ``"power"`` for K_1, ``"matrix"`` for K_2, ``"waveform"`` for K_3.

    Shape:
        - X, Y: ``(N, C, T)``, ``(M, C, T)``, or what `read` returned for them
        - returns ``(N, M)``

    References:
        Arsigny et al., Geometric Means in a Novel Vector Space Structure on Symmetric
        Positive-Definite Matrices, SIAM J. Matrix Anal. Appl. 2007 (the log-Euclidean metric).
    """

    def __init__(
        self, sampling_rate: float = 250.0, bands: Bands | None = None, shrinkage: float = 0.05,
        views: Sequence[str] = VIEWS,
    ) -> None:  # fmt: skip
        self.subjects_: dict[str, NDArray[np.float64]] = {}
        self.sampling_rate = sampling_rate
        self.bands = bands
        self.shrinkage = shrinkage
        self.views = views
        self.check()

    def no_network(self) -> str:
        return "Its features of spectra are arrays, without derivatives in a window."

    def read(self, X: Iterable[Any]) -> Spectra:
        """Return the features of windows before they are standardized.

        `fit`, `transform` and the kernel itself take them in place of the windows.
        """
        self.check()
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
        samples, rate = self.shape_[1], self.sampling_rate
        bands = known_bands(self._bands(samples), rate, samples)
        return [f for view in self.views for f in features_of(view, bands, self.shape_, rate)]

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        shape = np.asarray(self.shape_, np.int64)
        arrays = {"shape": shape, "means": self.means_, "scales": self.scales_}
        return {"views": list(self.views)}, arrays | self.subjects_

    def restore(
        self, tokens: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Set the views and what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        self.views = tuple(tokens["views"])
        self.check()
        shape = tuple(arrays["shape"].tolist())
        if len(shape) != 2 or not (0 < shape[0] <= 4096 and 1 < shape[1] <= 2**24):
            raise ValueError(f"the shape of a window is {shape}")
        self.shape_ = shape
        count = len(known_bands(self._bands(shape[1]), self.sampling_rate, shape[1]))
        sizes = {POWER: count * shape[0], MATRIX: count * shape[0] ** 2,
                 WAVEFORM: shape[0] * min(shape[1], TIMES)}  # fmt: skip
        width = sum(sizes[view] for view in self.views)
        self.subjects_ = {name: arrays[name] for name in OF_SUBJECTS if name in arrays}
        classes = len(arrays.get("intercepts", ()))
        if any(array.shape != (classes, classes) for array in self.subjects_.values()):
            raise ValueError(f"scores of {classes} classes have other covariances")
        return self._set_moments(arrays, width)

    def _bands(self, samples: int) -> Bands:
        return usual_bands(self.sampling_rate, samples) if self.bands is None else self.bands

    def check(self) -> None:
        if not 0 < value_of(self.sampling_rate) < float("inf"):
            raise ArgumentError("sampling_rate", self.sampling_rate, "a positive number of Hz")
        if not 0 < value_of(self.shrinkage) <= 1:
            raise ArgumentError("shrinkage", self.shrinkage, "a number in (0, 1]")
        self._check_views((*VIEWS, WAVEFORM))
        for band in self.bands or ():
            if np.shape(band) != (2,) or not 0 <= band[0] < band[1]:
                raise ArgumentError("bands", self.bands, "pairs of a lower and a higher frequency")
