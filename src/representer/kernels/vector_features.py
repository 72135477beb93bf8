"""Features of texts by the vectors of their words, with exact contributions of the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

LANDMARKS, BANDWIDTH = 500, 0.15  # of the Gaussian kernel; the second, divided by its inputs
AXES, DECAY, REACH = 16, 0.5, 3  # of the string kernel: projected vectors, and pairs of words
ROUNDING = 1e-8  # of the largest eigenvalue
NODES = 24  # of the quadrature, whose error is then below that of float32
PREFIX = "vectors."

Floats = NDArray[np.float64]
Shares = tuple[float, list[tuple[tuple[int, ...], float]]]  # a constant; parts by positions


class VectorFeatures(BaseEstimator):
    r"""Features of texts whose inner products are a sum of two kernels of their words' vectors.

    .. math::
        K(x, y) = \exp(-\gamma \|z_x - z_y\|^2)
            + \frac{\langle S_x, S_y \rangle}{\|S_x\| \|S_y\|}, \qquad
        S_x = \sum_{i < j \le i + 3} \lambda^{j - i - 1}\, P v_i \otimes P v_j

    z is the mean and the maximum of the vectors v of a text's words, standardized. The second
    kernel is the string kernel of pairs of words, with gaps, that compares words by their vectors,
    projected by P on 16 principal axes. The first one is that of landmarks, drawn from the texts of
    `fit_transform`. Words without a vector are left out.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (1).
        Williams and Seeger, Using the Nyström Method to Speed Up Kernel Machines, NeurIPS 2000.
        Friedman, Paths and Consistency in Additive Cost Sharing, 2004, for `shares`.
    """

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    def fit_transform(self, X: Sequence[Sequence[str]]) -> Floats:
        """Learn scales, axes and landmarks from the words of some texts; return their features."""
        matrix = self.vectors.matrix
        self.center_ = matrix.mean(0, dtype=np.float64)
        spread = matrix - self.center_
        axes = np.linalg.eigh(spread.T @ spread)[1][:, ::-1][:, :AXES]
        self.axes_ = np.ascontiguousarray(axes, np.float64)
        of_texts = [self._looked_up(words)[0] for words in X]
        pooled = np.stack([_pooled(v) for v in of_texts])
        self.shift_, self.scale_ = pooled.mean(0), pooled.std(0) + 1e-9
        z = (pooled - self.shift_) / self.scale_
        drawn = np.random.default_rng(0).permutation(len(z))[:LANDMARKS]
        self.landmarks_ = z[np.sort(drawn)]
        values, axes = np.linalg.eigh(self._gaussian(self.landmarks_))
        is_kept = values > values[-1] * ROUNDING
        self.whitening_ = np.ascontiguousarray(axes[:, is_kept] / np.sqrt(values[is_kept]))
        return self._features(z, [self._pairs(v) for v in of_texts])

    def transform(self, X: Sequence[Sequence[str]]) -> Floats:
        """Return the features of texts, given as their words ``(N, F)``."""
        of_texts = [self._looked_up(words)[0] for words in X]
        pooled = [_pooled(v) for v in of_texts]
        z = (np.reshape(pooled, (len(pooled), -1)) - self.shift_) / self.scale_
        return self._features(z, [self._pairs(v) for v in of_texts])

    def shares(self, words: Sequence[str], coefficients: Floats) -> Shares:
        """Return the score of a text without vectors, and what the vectors of its words add to it.

        The Gaussian part is the integral of the gradient from this text, whose pooled vectors are
        zeros, along the line to the text; a maximum belongs to the first word that has it. The
        other part is a sum over pairs of words.
        """
        v, places = self._looked_up(words)
        width = self.whitening_.shape[1]
        of_landmarks = self.whitening_ @ coefficients[:width]
        start = -self.shift_ / self.scale_
        baseline = float(self._gaussian(start[None])[0] @ of_landmarks)
        if not len(v):
            return baseline, []
        step = _pooled(v) / self.scale_
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        path = start + np.outer((nodes + 1) / 2, step)
        values = self._gaussian(path) * of_landmarks * (weights / 2)[:, None]
        inner = values.sum(0) @ self.landmarks_ - values.sum(1) @ path
        slopes = 2 * self._precision * inner / self.scale_  # of the pooled vectors
        means, maxima = np.split(slopes, 2)
        added = v @ means / len(v)
        first = v.argmax(0)
        np.add.at(added, first, maxima * v[first, np.arange(len(first))])
        shares: list[tuple[tuple[int, ...], float]] = [
            ((t,), float(a)) for t, a in zip(places, added, strict=True)
        ]
        axes, length = self._projected(v), float(np.linalg.norm(self._pair_sums(v)))
        if length:
            weighted = axes @ coefficients[width:].reshape(self.axes_.shape[1], -1) / length
            for gap in range(1, min(REACH, len(v) - 1) + 1):
                products = DECAY ** (gap - 1) * (weighted[:-gap] * axes[gap:]).sum(1)
                for i, value in enumerate(products.tolist()):
                    shares.append(((places[i], places[i + gap]), value))
        return baseline, shares

    def fitted(self) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """Return words and arrays, as `restore` takes them."""
        arrays = {name: getattr(self, f"{name}_") for name in _LEARNED}
        arrays |= {"matrix": self.vectors.matrix}
        return list(self.vectors.words), {f"{PREFIX}{n}": array for n, array in arrays.items()}

    def restore(self, words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what was learned.

        Raises:
            KeyError: One is missing.
        """
        learned = {name: arrays[f"{PREFIX}{name}"] for name in ("matrix", *_LEARNED)}
        self.vectors = replace(self.vectors, words=tuple(words), matrix=learned.pop("matrix"))
        size = self.vectors.dimensions
        expected = {"center": (size,), "axes": (size, min(size, AXES)),
                    "shift": (2 * size,), "scale": (2 * size,),
                    "landmarks": (len(learned["whitening"]), 2 * size)}  # fmt: skip
        for name, array in learned.items():
            if array.shape != expected.get(name, array.shape) or array.dtype != np.float64:
                raise ValueError(f"{name} has shape {array.shape}; expected {expected[name]}")
            setattr(self, f"{name}_", array)
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return self.whitening_.shape[1] + self.axes_.shape[1] ** 2

    @property
    def _precision(self) -> float:
        return BANDWIDTH / len(self.shift_)

    def _looked_up(self, words: Sequence[str]) -> tuple[Floats, list[int]]:
        """Return the vectors of the words that have one, and their positions."""
        rows = self.vectors.rows(words)
        places = np.flatnonzero(rows >= 0)
        return self.vectors.matrix[rows[places]].astype(np.float64), places.tolist()

    def _gaussian(self, z: Floats) -> Floats:
        """Return the Gaussian kernel with the landmarks."""
        landmarks = self.landmarks_
        lengths = (z**2).sum(1)[:, None] + (landmarks**2).sum(1)
        return np.exp(-self._precision * np.maximum(lengths - 2 * z @ landmarks.T, 0))

    def _projected(self, v: Floats) -> Floats:
        return (v - self.center_) @ self.axes_

    def _pair_sums(self, v: Floats) -> Floats:
        axes, size = self._projected(v), self.axes_.shape[1]
        sums = np.zeros((size, size))
        for gap in range(1, min(REACH, len(v) - 1) + 1):
            sums += DECAY ** (gap - 1) * axes[:-gap].T @ axes[gap:]
        return sums

    def _pairs(self, v: Floats) -> Floats:
        sums = self._pair_sums(v).ravel()
        return sums / (np.linalg.norm(sums) or 1.0)

    def _features(self, z: Floats, pairs: list[Floats]) -> Floats:
        size = self.axes_.shape[1] ** 2
        return np.hstack([self._gaussian(z) @ self.whitening_, np.reshape(pairs, (-1, size))])


_LEARNED = "center", "axes", "shift", "scale", "landmarks", "whitening"


def _pooled(v: Floats) -> Floats:
    """Return the mean and the maximum of vectors ``(2D,)``; zeros if there are none."""
    return np.concatenate([v.mean(0), v.max(0)]) if len(v) else np.zeros(2 * v.shape[1])
