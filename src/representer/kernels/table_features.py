"""Features of numbers and categories next to a text, such as a price or a brand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from representer.checks import written_number
from representer.errors import ArgumentError

BINS, LARGEST = 8, 3.0  # of a number: intervals of equal counts, standard deviations

Floats = NDArray[np.float64]


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
