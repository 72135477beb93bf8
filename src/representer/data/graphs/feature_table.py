"""A table of graphs, nodes or edges: its cells by their meaning, and its labels or numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from representer.data.tables import Grid
from representer.data.tables.columns import LABEL_NAMES, plain
from representer.data.tables.grid import name_of, number_of, text_of
from representer.data.tables.roles import data_columns
from representer.data.tables.suggest import listing
from representer.errors import DataError


@dataclass(frozen=True)
class FeatureTable:
    """The cells of a table whose columns are roles, such as the node, or features.

    Attributes:
        path: The file.
        grid: Its cells.
        places: The column of each role.
        features: Which are used: ``"labels"``, ``"attributes"``, or labels if there are some, as
            ``"auto"``; an empty text for none.
    """

    path: Path
    grid: Grid
    places: Mapping[str, int]
    features: str = ""

    def cells(self, role: str) -> list[str]:
        """Return the cells of a role as text, empty if it has no column."""
        at = self.places.get(role)
        return ["" if at is None else name_of(row[at]) for row in self.grid.rows]

    def error(self, row: int, role: str | int, problem: str, fix: str) -> DataError:
        """Return the error of a cell in the column of a role or at a position."""
        column = self.grid.columns[role if isinstance(role, int) else self.places[role]]
        line = self.grid.lines[row]
        return DataError(problem, file=self.path, line=line, column=column, fix=fix)

    def about(self) -> str:
        """Return in words for what each column is used."""
        named = [(role, [at]) for role, at in self.places.items()]
        labels, numbers, unused = self._features
        named += [("labels", labels), ("numbers", numbers), ("unused, see --features,", unused)]
        words = [
            f"{what} {listing([self.grid.columns[at] for at in columns])}"
            for what, columns in named
            if columns
        ]
        return f"{self.path.name}: {', '.join(words)}"

    def values(self) -> list[Any]:
        """Return the label of each row, several of them joined, or its numbers; empty for neither.

        Raises:
            DataError: A cell of a column of numbers is not a finite number.
        """
        labels, numbers, _ = self._features
        rows = self.grid.rows
        if labels:
            return [",".join(name_of(row[at]) for at in labels) for row in rows]
        return [[self._number(row, at) for at in numbers] for row in range(len(rows)) if numbers]

    @cached_property
    def _features(self) -> tuple[list[int], list[int], list[int]]:
        """The columns of the labels or those of the numbers that are used, and the others."""
        free = [at for at in data_columns(self.grid) if at not in self.places.values()]
        numbers = [at for at in free if self._has_numbers(at)]
        labels = sorted({*free} - {*numbers})
        if not self.features:
            return [], [], []
        if self.features == "labels" or (self.features == "auto" and labels):
            return labels, [], numbers
        return [], numbers, labels

    def _has_numbers(self, column: int) -> bool:
        """Return True if most cells are numbers; integers in a column such as label are labels."""
        known = [cell for row in self.grid.rows if text_of(cell := row[column]).strip()]
        numbers = [number for cell in known if (number := number_of(cell)) is not None]
        if plain(self.grid.columns[column]) in LABEL_NAMES and len(numbers) == len(known):
            return not all(number.is_integer() for number in numbers)
        return 2 * len(numbers) > len(known)

    def _number(self, row: int, column: int) -> float:
        cell = self.grid.rows[row][column]
        number = number_of(cell)
        if number is None or not math.isfinite(number):
            problem = f"{text_of(cell)!r:.60} is not a finite number, as most cells of its column"
            raise self.error(row, column, problem, "Correct it, or remove the column.")
        return number
