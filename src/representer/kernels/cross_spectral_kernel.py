"""A kernel of windows of multichannel signals: the logarithms of their cross-spectral matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError, ShapeError
from representer.kernels.kernel import Kernel, Objects, value_of
from representer.kernels.spectra import (
    VIEWS,
    Bands,
    Spectra,
    SpectralFeature,
    features_of,
    known_bands,
    read_spectra,
    usual_bands,
)


class CrossSpectralKernel(Kernel):
    r"""Compares the power of all channels and the coupling of all pairs, band by band.

    It is the mean of two kernels, whose features `fit` standardizes:

    .. math::
        K_1(x, y) = \sum_{b,c} \log S_b(x)_{cc} \log S_b(y)_{cc}, \qquad
        K_2(x, y) = \sum_b \langle \log S_b(x), \log S_b(y) \rangle_F, \qquad
        S_b(x)_{cd} = \sum_{f \in b} \hat x_c(f)\, \overline{\hat x_d(f)}

    K_1 takes the logarithm of each channel's power, K_2 that of the Hermitian matrix. A lag between
    two channels is the phase of an entry, which the wavelet filters of L19 section 6 (SyncNet)
    learn. In K_2, S is shrunk towards a multiple of the identity.

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

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares."""
        return "sequences"

    def __call__(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        """Return the Gram matrix of X with Y, or of X with itself, of standardized features."""
        check_is_fitted(self)
        left = self.transform(X)
        return left @ (left if Y is None else self.transform(Y)).T

    def diag(self, X: Any) -> NDArray[np.float64]:
        """Return k(x, x) of each window."""
        check_is_fitted(self)
        return (self.transform(X) ** 2).sum(axis=1)

    def read(self, X: Iterable[Any]) -> Spectra:
        """Return the features of windows before they are standardized.

        `fit`, `transform` and the kernel itself take them in place of the windows.
        """
        self._check()
        windows = X if isinstance(X, np.ndarray) else list(X)
        bands = self._bands(np.shape(windows)[-1])
        return read_spectra(windows, self.sampling_rate, bands, self.shrinkage, self.views)

    def fit(self, X: Any, targets: NDArray[np.float64] | None = None) -> Self:
        """Find the mean and the deviation of every feature; targets have no influence."""
        spectra = self._spectra(X)
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

    def fit_transform(
        self, X: Any, targets: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the features of the windows that the kernel is fitted to, see `fit`."""
        return self.fit(X, targets).transform(X)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.means_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the standardized features ``(N, F)``; those of each view have the same weight."""
        spectra = self._spectra(X)
        if spectra.shape != self.shape_:
            got = (len(spectra), *spectra.shape)
            raise ShapeError("X", got, f"(N, {self.shape_[0]}, {self.shape_[1]})")
        views = [spectra.views[view] for view in self.views]
        features = np.concatenate(views, axis=1, dtype=np.float64)
        features -= self.means_
        features /= self.scales_
        return features

    def features(self) -> list[SpectralFeature]:
        """Return what each feature is computed from."""
        channels, samples = self.shape_
        bands = known_bands(self._bands(samples), self.sampling_rate, samples)
        return [one for view in self.views for one in features_of(view, bands, channels)]

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
        self.shape_, self.means_, self.scales_ = shape, arrays["means"], arrays["scales"]
        count = len(known_bands(self._bands(shape[1]), self.sampling_rate, shape[1]))
        sizes = {"power": shape[0], "matrix": shape[0] ** 2}
        width = count * sum(sizes[view] for view in self.views)
        if not self.means_.shape == self.scales_.shape == (width,):
            raise ValueError(f"means of {self.means_.shape} features")
        if not (self.scales_ > 0).all():
            raise ValueError("a scale is not positive")
        return self

    def _spectra(self, X: Any) -> Spectra:
        return X if isinstance(X, Spectra) else self.read(X)

    def _bands(self, samples: int) -> Bands:
        return usual_bands(self.sampling_rate, samples) if self.bands is None else self.bands

    def _check(self) -> None:
        if not 0 < value_of(self.sampling_rate) < float("inf"):
            raise ArgumentError("sampling_rate", self.sampling_rate, "a positive number of Hz")
        if not 0 < value_of(self.shrinkage) <= 1:
            raise ArgumentError("shrinkage", self.shrinkage, "a number in (0, 1]")
        if not self.views or len({*self.views} & {*VIEWS}) < len(self.views):
            raise ArgumentError("views", self.views, f"one or both of {', '.join(VIEWS)}")
        for band in self.bands or ():
            if np.shape(band) != (2,) or not 0 <= band[0] < band[1]:
                raise ArgumentError("bands", self.bands, "pairs of a lower and a higher frequency")
