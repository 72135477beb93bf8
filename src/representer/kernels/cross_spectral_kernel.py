"""A kernel of windows of multichannel signals: the logarithms of their cross-spectral matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError, ShapeError
from representer.kernels.kernel import Kernel, Objects

# delta, theta, alpha, beta and low gamma of an electroencephalogram, in Hz
BANDS = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 45.0))
SMALLEST = 1e-12  # of the largest eigenvalue; silence has a logarithm, too


class SpectralFeature(NamedTuple):
    """The origin of a feature.

    Attributes:
        band: Its lowest and highest frequency in Hz.
        channels: One channel for its log power, two for their coupling.
        part: ``"power"``, ``"in phase"`` or ``"quarter cycle apart"``, the imaginary part.
    """

    band: tuple[float, float]
    channels: tuple[int, ...]
    part: str


class CrossSpectralKernel(Kernel):
    r"""Compares the power of all channels and the coupling of all pairs, band by band.

    .. math::
        K(x, y) = \sum_b \langle \log S_b(x), \log S_b(y) \rangle_F, \qquad
        S_b(x)_{cd} = \sum_{f \in b} \hat x_c(f)\, \overline{\hat x_d(f)}

    S is Hermitian; a lag between two channels is the phase of an entry, which the wavelet filters
    of L19 section 6 (SyncNet) learn. It is shrunk towards a multiple of the identity. `fit`
    standardizes every feature.

    Args:
        sampling_rate: Samples per second.
        bands: Lowest and highest frequency of each band in Hz; those without a frequency of the
            window are left out.
        shrinkage: Weight of the identity, in (0, 1].

    Shape:
        - X, Y: ``(N, C, T)``, ``(M, C, T)``
        - returns ``(N, M)``

    References:
        Arsigny et al., Geometric Means in a Novel Vector Space Structure on Symmetric
        Positive-Definite Matrices, SIAM J. Matrix Anal. Appl. 2007 (the log-Euclidean metric).
    """

    def __init__(
        self,
        sampling_rate: float = 250.0,
        bands: Sequence[tuple[float, float]] = BANDS,
        shrinkage: float = 0.05,
    ) -> None:
        self.sampling_rate = sampling_rate
        self.bands = bands
        self.shrinkage = shrinkage
        self._check()

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares."""
        return "sequences"

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix of X with Y, or of X with itself, of standardized features."""
        check_is_fitted(self)
        left = self.transform(X)
        return left @ (left if Y is None else self.transform(Y)).T

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return k(x, x) of each window."""
        check_is_fitted(self)
        return (self.transform(X) ** 2).sum(axis=1)

    def fit(
        self, X: Iterable[Any], labels: NDArray[np.int64] | None = None, classes: int = 0
    ) -> Self:
        """Find the mean and the deviation of every feature; classes have no influence."""
        self._check()
        windows = _windows(X)
        self.shape_ = windows.shape[1:]
        features = self.logarithms(windows)
        deviations = features.std(axis=0)
        self.means_ = features.mean(axis=0)
        self.scales_ = np.where(deviations > 0, deviations, 1.0) * features.shape[1] ** 0.5
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.means_)

    def transform(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return the standardized features ``(N, F)``, divided by the root of their number."""
        windows = _windows(X)
        if windows.shape[1:] != self.shape_:
            raise ShapeError("X", windows.shape, f"(N, {self.shape_[0]}, {self.shape_[1]})")
        return (self.logarithms(windows) - self.means_) / self.scales_

    def logarithms(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return log S of all bands ``(N, F)`` so that inner products are those of Frobenius."""
        windows = _windows(X)
        channels, samples = windows.shape[1:]
        centered = windows - windows.mean(axis=2, keepdims=True)
        spectrum = np.fft.rfft(centered * np.hanning(samples), axis=2)
        rows, columns = np.triu_indices(channels, 1)
        identity, parts = np.eye(channels), []
        for inside in self._inside(samples):
            own = spectrum[:, :, inside]
            S = own @ own.conj().transpose(0, 2, 1) / inside.sum()
            power = np.einsum("ncc->n", S).real / channels
            shrunk = (1 - self.shrinkage) * S
            shrunk = shrunk + (self.shrinkage * power)[:, None, None] * identity
            values, vectors = np.linalg.eigh(shrunk)
            least = np.maximum(values[:, -1:] * SMALLEST, np.finfo(np.float64).tiny)
            logs = np.log(np.maximum(values, least))
            L = (vectors * logs[:, None]) @ vectors.conj().transpose(0, 2, 1)
            coupling = 2**0.5 * L[:, rows, columns]
            own_power = np.einsum("ncc->nc", L).real
            parts += [own_power, coupling.real, coupling.imag]
        return np.concatenate(parts, axis=1)

    def features(self) -> list[SpectralFeature]:
        """Return what each feature is computed from."""
        channels, samples = self.shape_
        pairs = list(zip(*(ends.tolist() for ends in np.triu_indices(channels, 1)), strict=True))
        result = []
        for band, inside in zip(self.bands, self._all_inside(samples), strict=True):
            if not inside.any():
                continue
            own = (float(band[0]), float(band[1]))
            result += [SpectralFeature(own, (c,), "power") for c in range(channels)]
            for part in ("in phase", "quarter cycle apart"):
                result += [SpectralFeature(own, pair, part) for pair in pairs]
        return result

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        shape = np.asarray(self.shape_, np.int64)
        return {}, {"shape": shape, "means": self.means_, "scales": self.scales_}

    def restore(self, tokens: dict[str, Sequence[str]], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: The values do not fit together.
            KeyError: One is missing.
        """
        shape = tuple(arrays["shape"].tolist())
        if len(shape) != 2 or not (0 < shape[0] <= 4096 and 1 < shape[1] <= 2**24):
            raise ValueError(f"the shape of a window is {shape}")
        self.shape_, self.means_, self.scales_ = shape, arrays["means"], arrays["scales"]
        bands = sum(bool(inside.any()) for inside in self._all_inside(shape[1]))
        if not self.means_.shape == self.scales_.shape == (bands * shape[0] ** 2,):
            raise ValueError(f"means of {self.means_.shape} features")
        if not (self.scales_ > 0).all():
            raise ValueError("a scale is not positive")
        return self

    def _all_inside(self, samples: int) -> list[NDArray[np.bool_]]:
        frequencies = np.fft.rfftfreq(samples, 1 / self.sampling_rate)
        return [(frequencies >= low) & (frequencies < high) for low, high in self.bands]

    def _inside(self, samples: int) -> list[NDArray[np.bool_]]:
        """Return which frequencies are in each band, for the bands that have one."""
        found = [inside for inside in self._all_inside(samples) if inside.any()]
        if not found:
            hertz = f"{self.sampling_rate / samples:g} to {self.sampling_rate / 2:g} Hz"
            raise ArgumentError("bands", self.bands, f"a band of the window's frequencies, {hertz}")
        return found

    def _check(self) -> None:
        if not 0 < self.sampling_rate < float("inf"):
            raise ArgumentError("sampling_rate", self.sampling_rate, "a positive number of Hz")
        if not 0 < self.shrinkage <= 1:
            raise ArgumentError("shrinkage", self.shrinkage, "a number in (0, 1]")
        for band in self.bands:
            if len(band) != 2 or not 0 <= band[0] < band[1]:
                raise ArgumentError("bands", self.bands, "pairs of a lower and a higher frequency")


def _windows(X: Iterable[Any]) -> NDArray[np.float64]:
    windows = np.asarray(X if isinstance(X, np.ndarray) else list(X), dtype=np.float64)
    if windows.ndim != 3:
        raise ShapeError("X", windows.shape, "(windows, channels, samples)")
    return windows
