"""Features of texts by the vectors of their words, with exact contributions of the words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from representer.checks import written_number
from representer.errors import ArgumentError

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


# Features of numbers and categories next to a text, such as a price or a brand.

BINS, LARGEST = 8, 3.0  # of a number: intervals of equal counts, standard deviations


class TextRow(str):
    """A text with the cells of other columns of its row."""

    cells: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, cells: Sequence[str]) -> Self:
        """Return a text with cells."""
        row = cls(text)
        row.cells = tuple(cells)
        return row


class TableFeatures(BaseEstimator):
    r"""Features of rows whose inner products are the mean of a kernel for each column.

    Two categories have the kernel :math:`[x = y]`, two numbers :math:`(z_x z_y + [b_x = b_y]) / 2`
    with z the number, standardized, and b its interval between quantiles of `fit`. An empty cell is
    a category, or an interval, of its own. A column is one of numbers if all other cells are.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def fit(self, X: Sequence[str]) -> Self:
        """Learn categories and intervals from texts that are `TextRow`."""
        if not any(getattr(x, "cells", ()) for x in X):
            raise ArgumentError("features", self.names, "columns of the table that is fitted to")
        self.columns_ = [_learned(cells) for cells in self._columns(X)]
        return self

    def transform(self, X: Sequence[str]) -> Floats:
        """Return the features of texts ``(N, F)``; those of a plain text have empty cells."""
        pairs = zip(self.columns_, self._columns(X), strict=True)
        return np.hstack([_block(*pair) for pair in pairs]) * len(self.columns_) ** -0.5

    def shares(self, x: str, coefficients: Floats) -> list[tuple[str, float]]:
        """Return the name of each cell of a text, and what it adds to a score."""
        ends = np.cumsum([_width(column) for column in self.columns_])[:-1]
        sums = [block.sum() for block in np.split(self.transform([x])[0] * coefficients, ends)]
        cells = list(getattr(x, "cells", ())) or [""] * len(self.names)
        numbers = [written_number(cell) for cell in cells]
        cells = [c or "–" if v is None else f"{v:.6g}" for c, v in zip(cells, numbers, strict=True)]
        labels = [f"{name} = {cell}" for name, cell in zip(self.names, cells, strict=True)]
        return list(zip(labels, map(float, sums), strict=True))

    def fitted(self) -> list[str]:
        """Return what `fit` learned as JSON, for `restore`."""
        return [json.dumps(column) for column in self.columns_]

    def restore(self, columns: Sequence[str]) -> Self:
        """Set what `fit` learns."""
        self.columns_ = [json.loads(column) for column in columns]
        if len(self.columns_) != len(self.names) or not all(map(_width, self.columns_)):
            raise ValueError(f"{len(columns)} columns next to the text for {self.names}")
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(map(_width, self.columns_))

    def _columns(self, X: Sequence[str]) -> list[tuple[str, ...]]:
        empty = ("",) * len(self.names)
        return list(zip(*[getattr(x, "cells", ()) or empty for x in X], strict=True))


def _learned(cells: Sequence[str]) -> dict[str, Any]:
    numbers = [written_number(cell) for cell in cells if cell]
    if not numbers or None in numbers or not np.isfinite(np.array(numbers, float)).all():
        return {"categories": sorted({*cells})}
    values = np.array(numbers, float)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    scale = float(values.std()) or 1.0
    return {"edges": edges.tolist(), "mean": float(values.mean()), "scale": scale}


def _width(column: dict[str, Any]) -> int:
    return len(column["categories"]) if "categories" in column else len(column["edges"]) + 3


def _block(column: dict[str, Any], cells: Sequence[str]) -> Floats:
    table = np.zeros((len(cells), _width(column)))
    if "categories" in column:
        numbers = {category: k for k, category in enumerate(column["categories"])}
        for row, cell in enumerate(cells):
            if cell in numbers:
                table[row, numbers[cell]] = 1.0
        return table
    values = np.array([written_number(cell) if cell else None for cell in cells], float)
    z = np.clip((values - column["mean"]) / column["scale"], -LARGEST, LARGEST)
    table[:, 0] = np.nan_to_num(z)
    bins = np.where(np.isnan(values), len(column["edges"]) + 1,
                    np.searchsorted(column["edges"], values))  # fmt: skip
    table[np.arange(len(cells)), 1 + bins] = 1.0
    return table * 0.5**0.5
