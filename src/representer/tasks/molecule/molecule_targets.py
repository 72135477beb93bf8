"""Targets of a molecule model: numbers in their unit, or classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from representer.data.molecules import MoleculeTable
from representer.data.tables import LabelMap
from representer.errors import DataError
from representer.estimators.classes import Classes, ClassTable
from representer.estimators.targets import Numbers

MANY = 50  # more classes with few rows each are probably numbers


@dataclass(frozen=True)
class Targets:
    """Targets of a run; cells may be empty.

    Args:
        names: Columns of the targets.
        means: Means subtracted in training, for a regression.
        scales: Scales divided by in training, for a regression.
        classes: Classes of each target, for a classification.
    """

    names: tuple[str, ...]
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    classes: tuple[tuple[str, ...], ...] = ()

    @property
    def is_regression(self) -> bool:
        """True if the targets are numbers."""
        return not self.classes

    @property
    def widths(self) -> list[int]:
        """Number of outputs of each target."""
        return [len(names) for names in self.classes] or [1] * len(self.names)

    def values(self, table: MoleculeTable) -> NDArray[np.float64]:
        """Return the cells of a table as numbers, or numbers of classes ``(N, K)``; NaN for none.

        Raises:
            DataError: If a cell is no number, or no class; with line and column.
        """
        if self.is_regression:
            return table.numbers()
        found = np.full((len(table), len(self.names)), np.nan)
        for k, names in enumerate(self.classes):
            known = LabelMap(names)
            place = {"file": table.source, "column": self.names[k]}
            for i, (cells, line) in enumerate(zip(table.targets, table.lines, strict=True)):
                if cells[k]:
                    found[i, k] = known.encode(cells[k], line=line, **place)
        return found

    @property
    def coded(self) -> Numbers | ClassTable:
        """The targets without their names: loss, metrics and units."""
        if self.is_regression:
            return Numbers(self.means, self.scales, is_single=False)
        return ClassTable(tuple(map(Classes, self.classes)))

    def loss(self, outputs: Tensor, values: Tensor) -> Tensor:
        """Return the mean loss over all known values, summed over the members.

        Args:
            outputs: ``(M, B, sum of widths)``.
            values: ``(B, K)`` in the unit of the data, NaN where unknown.
        """
        return self.coded.loss(outputs, values)

    def in_unit(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the outputs of a regression in the unit of the data."""
        coded = self.coded
        assert isinstance(coded, Numbers)
        return coded.in_unit(outputs)

    def probabilities(self, outputs: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the class probabilities of each target, averaged over members ``(N, C)``."""
        coded = self.coded
        assert isinstance(coded, ClassTable)
        return coded.probabilities(outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {name: list(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Targets:
        """Return the targets that `to_dict` described."""
        classes = tuple(tuple(names) for names in values["classes"])
        names, means, scales = (tuple(values[n]) for n in ("names", "means", "scales"))
        return cls(names, means, scales, classes)


def find_targets(
    table: MoleculeTable, task: str, train: Sequence[int], *, standardize: bool
) -> Targets:
    """Return the targets of a table.

    Args:
        table: All molecules of the main file.
        task: ``"regression"`` or ``"classification"``.
        train: Training rows, which determine means and scales.
        standardize: Whether to standardize the targets.

    Raises:
        DataError: If a target has fewer than two different values or classes.
    """
    names = table.target_columns
    if task == "classification":
        return Targets(names, classes=tuple(_classes(table, k, train) for k in range(len(names))))
    numbers = table.numbers()[list(train)]
    for k, name in enumerate(names):
        own = numbers[~np.isnan(numbers[:, k]), k]
        if len(own) < 2 or np.ptp(own) == 0:
            what = "one value alone" if len(own) else "no value"
            problem = f"{what} among the {len(train)} molecules to train on"
            raise DataError(problem, file=table.source, column=name, fix="Leave this target out.")
    if not standardize:
        return Targets(names, (0.0,) * len(names), (1.0,) * len(names))
    means, scales = np.nanmean(numbers, axis=0), np.nanstd(numbers, axis=0)
    return Targets(names, tuple(means.tolist()), tuple(scales.tolist()))


def _classes(table: MoleculeTable, k: int, train: Sequence[int]) -> tuple[str, ...]:
    cells = [row[k] for row in table.targets if row[k]]
    names = LabelMap.build(cells).names if cells else ()
    source, column = table.source, table.target_columns[k]
    if len(names) > MANY and 2 * len(names) > len(cells):
        problem = f"{len(names)} different values of {len(cells)} are no classes"
        fix = "For numbers pass task='regression'."
        raise DataError(problem, file=source, column=column, fix=fix)
    trained = {table.targets[i][k] for i in train} - {""}
    if len(trained) < 2:
        what = f"{len(trained)} class" + ("" if len(trained) == 1 else "es")
        problem = f"{what} among the {len(train)} molecules to train on; at least two are needed"
        raise DataError(problem, file=source, column=column, fix="Leave this target out.")
    return names
