"""Reading of molecules and targets from a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules.columns import (
    guess_target,
    smiles_column,
    value,
)
from representer.data.molecules.files import read_molecule_grid
from representer.data.molecules.smiles import parse_smiles
from representer.data.tables import Dropped, Grid
from representer.data.tables.columns import ignored_split, resolve
from representer.data.tables.grid import text_of
from representer.errors import ArgumentError, DataError
from representer.numbers import parse_number


@dataclass(frozen=True)
class MoleculeTable:
    """Molecules and their targets, in the order of the file.

    Args:
        smiles: One molecule per row, without surrounding whitespace.
        targets: The cells of the targets, row by row; ``""`` for a missing value.
        lines: The line of the file on which each row starts.
        smiles_column: The column of the molecules.
        target_columns: The columns of the targets.
        dropped: The skipped rows, with reasons.
        source: The file.
        notes: Guesses made while reading.
    """

    smiles: list[str]
    targets: list[tuple[str, ...]]
    lines: list[int]
    smiles_column: str
    target_columns: tuple[str, ...]
    dropped: list[Dropped]
    source: str
    notes: list[str]

    def __len__(self) -> int:
        """Return the number of molecules."""
        return len(self.smiles)

    def numbers(self) -> NDArray[np.float64]:
        """Return the targets as numbers ``(N, K)``, NaN for missing values.

        Raises:
            DataError: If a cell is not a finite number, with its line and column.
        """
        numbers = np.full((len(self), len(self.target_columns)), np.nan)
        for i, (cells, line) in enumerate(zip(self.targets, self.lines, strict=True)):
            for k, cell in enumerate(cells):
                if cell:
                    numbers[i, k] = self._number(cell, line, self.target_columns[k])
        return numbers

    def _number(self, cell: str, line: int, column: str) -> float:
        number = parse_number(cell)
        if number is None or not math.isfinite(number):
            fix = "Correct or empty the cell, or pass task='classification' for classes."
            problem = f"{_short(cell)} is not a finite number in plain notation, such as -1.5e3"
            raise DataError(problem, file=self.source, line=line, column=column, fix=fix)
        return number


def read_molecules(
    path: str | PathLike[str],
    smiles: str | None = None,
    target: str | None = None,
    *,
    skip_invalid: bool = False,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> MoleculeTable:
    """Read molecules from CSV, TSV, JSON Lines, Parquet, SDF or a file of SMILES (``.smi``).

    Args:
        path: The file, which may be compressed; the first row of a table names its columns.
        smiles: The column of the molecules; by default one with a usual name, such as ``smiles``.
        target: The column of the target, or several separated by commas; None for no target. Rows
            without any target value are skipped, with a note.
        skip_invalid: Skip rows without a valid SMILES instead of raising an error.
        delimiter: The cell separator of a CSV or TSV file; guessed by default.
        encoding: The encoding of the file.

    Raises:
        ArgumentError: If a column is requested twice.
        DataError: If the file is invalid, or a row has no valid SMILES, with its line, value
            and reason.
        MissingExtraError: If RDKit is not installed.
    """
    layout = {"delimiter": delimiter, "encoding": encoding}
    grid, smiles = read_molecule_grid(path, smiles, target, **layout)
    return molecules_of(grid, str(Path(path)), smiles, target, skip_invalid=skip_invalid)


def molecules_of(
    grid: Grid,
    source: str,
    smiles: str | None,
    target: str | None,
    *,
    skip_invalid: bool,
    require_target: bool = False,
) -> MoleculeTable:
    """Return the molecules of a grid of cells; see :func:`read_molecules`.

    Args:
        grid: The cells.
        source: The file, for messages.
        smiles: As in :func:`read_molecules`.
        target: As in :func:`read_molecules`.
        skip_invalid: As in :func:`read_molecules`.
        require_target: Without a named target, guess its column.
    """
    at, guessed = smiles_column(grid, smiles, source)
    notes = [*grid.notes, *guessed, *ignored_split(grid)]
    places = resolve(grid, target, "target", source) if target else []
    if require_target and not places:
        place, note = guess_target(grid, at, source)
        places, notes = [place], [*notes, note]
    if len(set(places)) < len(places) or at in places:
        raise ArgumentError("target", target, "columns other than the SMILES, each once")
    kept: list[tuple[str, tuple[str, ...], int]] = []
    dropped, invalid = list(grid.dropped), []
    for row, line in zip(grid.rows, grid.lines, strict=True):
        molecule = text_of(row[at]).strip()
        cells = tuple(value(row[k]) for k in places)
        if places and not any(cells):
            dropped.append(Dropped(line, "no target"))
        elif reason := invalid_reason(molecule):
            invalid.append(Dropped(line, reason))
        else:
            kept.append((molecule, cells, line))
    if invalid and not skip_invalid:
        raise _refusal(invalid, source, grid.columns[at])
    dropped = sorted([*dropped, *invalid], key=lambda row: row.line)
    if not kept:
        problem = f"none of the {len(dropped)} rows can be used"
        fix = f"The first: line {dropped[0].line}, {dropped[0].reason}." if dropped else ""
        raise DataError(problem, file=source, column=grid.columns[at], fix=fix)
    molecules, targets, lines = (list(part) for part in zip(*kept, strict=True))
    columns = tuple(grid.columns[k] for k in places)
    return MoleculeTable(
        molecules, targets, lines, grid.columns[at], columns, dropped, source, notes
    )


def invalid_reason(smiles: str) -> str:
    """Return the reason why a text is not a valid SMILES; ``""`` if it is valid."""
    if not smiles.strip():
        return "empty SMILES"
    try:
        parse_smiles(smiles)
    except ArgumentError as error:
        reason = str(error).partition("expected a valid SMILES. ")[2].rstrip(".")
        return f"invalid SMILES {_short(smiles)}: {reason or 'it has no atoms'}"
    return ""


def _refusal(invalid: Sequence[Dropped], source: str, column: str) -> DataError:
    first, others = invalid[0], len(invalid) - 1
    lines = ", ".join(str(row.line) for row in invalid[1:6])
    plural, cut = "s" if others > 1 else "", ", ..." if others > 5 else ""
    more = f"; {others} more row{plural} (line{plural} {lines}{cut})" if others else ""
    fix = "Correct it, or skip such rows with skip_invalid."
    return DataError(first.reason + more, file=source, line=first.line, column=column, fix=fix)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
